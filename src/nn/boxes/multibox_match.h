// Which prior boxes of an image count in the loss of MultiBoxLoss, and for which object: matching,
// and the choice of hard examples.
//
// mining_type
//   NONE          all priors count; those without an object as background
//   MAX_NEGATIVE  the priors with an object, and of those without one that overlap none by
//                 neg_overlap or more, at most neg_pos_ratio times as many with the largest
//                 confidence loss
//   HARD_EXAMPLE  the sample_size priors with the largest loss, of confidence and location
// In an image without objects only NONE counts priors. With nms_param, of overlapping boxes only
// the one with the larger loss can be chosen; nms_param.top_k is then the number of boxes that take
// part, and 0 if it is not given.
#ifndef MILLRACE_NN_BOXES_MULTIBOX_MATCH_H_
#define MILLRACE_NN_BOXES_MULTIBOX_MATCH_H_

#include <map>
#include <span>
#include <vector>

#include "nn/boxes/box_code.h"
#include "nn/boxes/box_match.h"
#include "nn/boxes/confidence_loss.h"
#include "nn/boxes/ground_truth.h"
#include "nn/boxes/location_loss.h"

namespace millrace::inline nn {

struct ImageMatches {
  // By class of the location output: with share_location one entry, whose key is 0.
  std::map<int, BoxMatches> of_class;
  std::vector<int> negatives;  // priors chosen as examples of the background
};

// Pointers of one image, in host memory.
struct ImagePredictions {
  const float* locations;    // {priors, location classes, 4}
  const float* confidences;  // {priors, classes}
};

class MultiBoxMatcher {
 public:
  // `param` has been checked (MultiBoxLossLayer::SetUp).
  explicit MultiBoxMatcher(const caffe::MultiBoxLossParameter& param);

  int location_classes() const { return param_.share_location() ? 1 : num_classes(); }
  int num_classes() const { return static_cast<int>(param_.num_classes()); }
  int background() const { return static_cast<int>(param_.background_label_id()); }
  bool mines() const { return param_.mining_type() != caffe::MultiBoxLossParameter::NONE; }
  // The class that the confidences are to name for an object.
  int TargetOf(const GroundTruth& object) const {
    return param_.map_object_to_agnostic() ? background() + 1 : object.label;
  }
  const LocationLoss& location_loss() const { return location_loss_; }
  const ConfidenceLoss& confidence_loss() const { return confidence_loss_; }

  // Throws Error as BoxCode does.
  ImageMatches Match(std::span<const GroundTruth> objects, std::span<const Prior> priors,
                     const ImagePredictions& predictions) const;

 private:
  std::vector<Box> Predicted(std::span<const Prior> priors, const ImagePredictions& predictions,
                             int location_class) const;
  void MatchClasses(std::span<const GroundTruth> objects, std::span<const Prior> priors,
                    const ImagePredictions& predictions, ImageMatches* matches) const;
  void Mine(std::span<const GroundTruth> objects, std::span<const Prior> priors,
            const ImagePredictions& predictions, ImageMatches* matches) const;
  // Of each prior: the loss that examples are chosen by.
  std::vector<float> Losses(std::span<const GroundTruth> objects, std::span<const Prior> priors,
                            const ImagePredictions& predictions, const BoxMatches& matches) const;
  // The priors that may be chosen, worst first.
  std::vector<int> Candidates(std::span<const Prior> priors, const ImagePredictions& predictions,
                              const BoxMatches& matches, const std::vector<float>& losses) const;

  caffe::MultiBoxLossParameter param_;
  LocationLoss location_loss_;
  ConfidenceLoss confidence_loss_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_MULTIBOX_MATCH_H_
