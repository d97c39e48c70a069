// Ground truth: the boxes that images contain, and which prior boxes match them.
#ifndef MILLRACE_CONTRIB_DETECTION_GROUND_TRUTH_H_
#define MILLRACE_CONTRIB_DETECTION_GROUND_TRUTH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "contrib/detection/boxes.h"
#include "millrace/blob.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Boxes that an image contains, as data layers give them: a blob {1, 1, rows, 8} whose rows are
//   image of the batch, label, instance, xmin, ymin, xmax, ymax, difficult
// A row whose image is -1 stands for no box.
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

// Matching of boxes with ground truth: which box is to find which object.
struct BoxMatches {
  static constexpr int kNone = -1, kIgnored = -2;

  // The index of each box's object, kNone, or kIgnored (it counts neither way).
  std::vector<int> object;
  // The largest overlap of each box with any object.
  std::vector<float> overlap;
};

struct MatchRules {
  caffe::MultiBoxLossParameter::MatchType type = caffe::MultiBoxLossParameter::PER_PREDICTION;
  float threshold = 0.5f;        // of PER_PREDICTION
  bool ignore_crossing = false;  // boxes that cross the image's edge are kIgnored
};

// First, objects and boxes are paired by falling overlap, each at most once (of equal overlaps, the
// box and then the object with the smaller index is first). With PER_PREDICTION each further box
// gets the object that it overlaps most, if that is at least the threshold. Overlaps up to 1e-6
// count as none. With `label`, only objects with this label take part.
BoxMatches MatchBoxes(std::span<const GroundTruth> objects, std::span<const Box> boxes,
                      std::optional<int> label, const MatchRules& rules);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_GROUND_TRUTH_H_
