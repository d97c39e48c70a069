// Matching of boxes with ground truth: which box is to find which object.
#ifndef MILLRACE_NN_BOXES_BOX_MATCH_H_
#define MILLRACE_NN_BOXES_BOX_MATCH_H_

#include <optional>
#include <span>
#include <vector>

#include "nn/boxes/box.h"
#include "nn/boxes/ground_truth.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

struct BoxMatches {
  static constexpr int kNone = -1, kIgnored = -2;

  // Of each box: the index of its object, kNone, or kIgnored (it counts neither way).
  std::vector<int> object;
  // Of each box: its largest overlap with any object.
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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_BOX_MATCH_H_
