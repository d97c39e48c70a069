// Non-maximum suppression: of boxes that overlap much, the one with the best score stays.
#ifndef MILLRACE_NN_BOXES_BOX_NMS_H_
#define MILLRACE_NN_BOXES_BOX_NMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "nn/boxes/box.h"

namespace millrace::inline nn {

// Indices of `scores`, best first; equal ones in their order. NaN is the best of all scores.
std::vector<int> BestFirst(std::span<const float> scores);

struct NmsRules {
  float least_score;       // only boxes with more take part
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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_BOX_NMS_H_
