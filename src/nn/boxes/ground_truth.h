// Boxes that an image contains, as data layers give them: a blob {1, 1, rows, 8} whose rows are
//   image of the batch, label, instance, xmin, ymin, xmax, ymax, difficult
// A row whose image is -1 stands for no box.
#ifndef MILLRACE_NN_BOXES_GROUND_TRUTH_H_
#define MILLRACE_NN_BOXES_GROUND_TRUTH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "millrace/blob.h"
#include "nn/boxes/box.h"

namespace millrace::inline nn {

struct GroundTruth {
  int label = 0;
  Box box;
  bool difficult = false;  // hard to recognise for people
};

// Checks of the rows. Errors name the row.
struct GroundTruthRules {
  int classes = 0;               // labels are below it
  int background = 0;            // no box has this label
  bool with_difficult = true;    // otherwise difficult boxes are left out
  std::optional<int64_t> batch;  // images are below it
};

// Throws FieldError(`field`, ...) unless `blob` has the shape above.
void CheckGroundTruthShape(const Blob& blob, const char* field);
// The boxes by image, in the order of the rows. Throws Error for a value that the rules exclude.
std::map<int64_t, std::vector<GroundTruth>> ReadGroundTruth(const float* values, int64_t rows,
                                                            const GroundTruthRules& rules);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_GROUND_TRUTH_H_
