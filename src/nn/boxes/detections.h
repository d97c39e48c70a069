// Objects that a net has found, as rows of a blob {1, 1, rows, 7}:
//   image of the batch, label, score, xmin, ymin, xmax, ymax
#ifndef MILLRACE_NN_BOXES_DETECTIONS_H_
#define MILLRACE_NN_BOXES_DETECTIONS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "nn/boxes/box.h"

namespace millrace::inline nn {

struct Detection {
  static constexpr int64_t kColumns = 7;

  int64_t image = 0;
  int label = 0;
  float score = 0;
  Box box;

  // Appends the row.
  void AppendTo(std::vector<float>* values) const;
};

// By image and label, in the order of the rows. Rows whose image or label is -1 stand for none.
// Throws Error for a row with the label `background`, and for numbers that are not whole.
using DetectionsOfImages = std::map<int64_t, std::map<int, std::vector<Detection>>>;
DetectionsOfImages ReadDetections(const float* values, int64_t rows, int background);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_DETECTIONS_H_
