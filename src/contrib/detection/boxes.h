// Boxes as blobs hold them, and the choice of the best.
#ifndef MILLRACE_CONTRIB_DETECTION_BOXES_H_
#define MILLRACE_CONTRIB_DETECTION_BOXES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/box.h"

namespace millrace::inline contrib {

// Boxes as blobs hold them.

// In the order in which blobs hold it.
inline std::array<float, 4> ValuesOf(const Box& box) {
  return {box.xmin, box.ymin, box.xmax, box.ymax};
}
inline Box BoxOf(const float* values) { return {values[0], values[1], values[2], values[3]}; }

// Whether a part of the box lies outside of the image.
inline bool CrossesImage(const Box& box) {
  const std::array<float, 4> values = ValuesOf(box);
  return std::any_of(values.begin(), values.end(), [](float x) { return x < 0 || x > 1; });
}

// Non-maximum suppression: of boxes that overlap much, the one with the best score stays.

struct NmsRules {
  float min_score;         // only boxes with more take part
  float threshold = 0.3f;  // the largest overlap with a better box that stays
  float eta = 1;           // below 1: the threshold falls by this factor with each box, down to 0.5
  int64_t top_k = -1;      // that many best boxes take part; -1: all
  int64_t keep = -1;       // at most that many stay; -1: no limit
};
// The boxes that stay, best first. Boxes whose score is NaN do not take part.
std::vector<int> SuppressBoxes(std::span<const Box> boxes, std::span<const float> scores,
                               const NmsRules& rules);

// The form that hard examples are chosen by: every box takes part, whatever its score, except those
// with an area below 1e-5.
std::vector<int> SuppressExamples(std::span<const Box> boxes, std::span<const float> scores,
                                  float threshold, int64_t top_k);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_BOXES_H_
