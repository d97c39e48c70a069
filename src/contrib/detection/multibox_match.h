// What MultiBoxLoss computes: losses of confidences and locations, matches, and hard examples.
#ifndef MILLRACE_CONTRIB_DETECTION_MULTIBOX_MATCH_H_
#define MILLRACE_CONTRIB_DETECTION_MULTIBOX_MATCH_H_

#include <map>
#include <span>
#include <vector>

#include "contrib/detection/box_code.h"
#include "contrib/detection/ground_truth.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// The loss of the scores x that a net gives a box for each class, against the targets of the box.
//   SOFTMAX   -log(max(softmax(x)[target], FLT_MIN)); there is one target, the last of those given
//   LOGISTIC  the sum over all classes of the cross entropy of sigmoid(x) with 1 for targets and 0
//             for the others
class ConfidenceLoss {
 public:
  using Type = caffe::MultiBoxLossParameter::ConfLossType;

  ConfidenceLoss(Type type, int classes) : type_(type), classes_(classes) {}

  // `scores`: one per class. Targets are classes; SOFTMAX needs one. NaN scores give NaN.
  float Value(const float* scores, std::span<const int> targets) const;
  // Writes `scale` times the derivatives of Value, one per class. As for SoftmaxWithLoss, that of
  // the lower limit of the logarithm's argument is not taken into account.
  void Gradient(const float* scores, std::span<const int> targets, float scale,
                float* gradient) const;

 private:
  Type type_;
  int classes_;
};

// The loss of a predicted location: how far the code that a net gives for a prior box is from the
// code of the matched object. With the difference d of one of the four numbers,
//   SMOOTH_L1   d^2 / 2 for |d| < 1, else |d| - 1/2        L2   d^2 / 2
class LocationLoss {
 public:
  explicit LocationLoss(const caffe::MultiBoxLossParameter& param);

  // The differences, prediction minus object. With encode_variance_in_target they are divided by
  // the prior's variances. With bp_inside, a number is 0 if its edge of the matched box (the prior,
  // or without use_prior_for_matching the predicted one) is outside of the image. Throws Error as
  // BoxCode::Encode does.
  BoxCode::Values Difference(const Prior& prior, const float* predicted, const Box& object) const;

  float Value(const BoxCode::Values& difference) const;
  // The derivative of Value by one difference.
  float Slope(float difference) const;

  const BoxCode& code() const { return code_; }

 private:
  BoxCode code_;
  bool smooth_, inside_, by_prior_, variance_in_target_;
};

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
  // The loss of each prior, by which examples are chosen.
  std::vector<float> Losses(std::span<const GroundTruth> objects, std::span<const Prior> priors,
                            const ImagePredictions& predictions, const BoxMatches& matches) const;
  // The priors that may be chosen, worst first.
  std::vector<int> Candidates(std::span<const Prior> priors, const ImagePredictions& predictions,
                              const BoxMatches& matches, const std::vector<float>& losses) const;

  caffe::MultiBoxLossParameter param_;
  LocationLoss location_loss_;
  ConfidenceLoss confidence_loss_;
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_MULTIBOX_MATCH_H_
