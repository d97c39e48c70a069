// The loss of a predicted location: how far the code that a net gives for a prior box is from the
// code of the matched object. With the difference d of one of the four numbers,
//   SMOOTH_L1   d^2 / 2 for |d| < 1, else |d| - 1/2        L2   d^2 / 2
#ifndef MILLRACE_NN_BOXES_LOCATION_LOSS_H_
#define MILLRACE_NN_BOXES_LOCATION_LOSS_H_

#include "nn/boxes/box_code.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_LOCATION_LOSS_H_
