#include "nn/boxes/location_loss.h"

#include <cmath>

#include "base/error.h"

namespace millrace::inline nn {

LocationLoss::LocationLoss(const caffe::MultiBoxLossParameter& param)
    : code_(param.code_type(), param.encode_variance_in_target()),
      smooth_(param.loc_loss_type() == caffe::MultiBoxLossParameter::SMOOTH_L1),
      inside_(param.bp_inside()),
      by_prior_(param.use_prior_for_matching()),
      variance_in_target_(param.encode_variance_in_target()) {}

BoxCode::Values LocationLoss::Difference(const Prior& prior, const float* predicted,
                                         const Box& object) const {
  BoxCode::Values difference = code_.Encode(prior, object);
  for (int k = 0; k < 4; ++k) difference[k] = predicted[k] - difference[k];
  if (inside_) {
    const auto edges = ValuesOf(by_prior_ ? prior.box : code_.Decode(prior, predicted));
    for (int k = 0; k < 4; ++k) {
      if (edges[k] < 0 || edges[k] > 1) difference[k] = 0;
    }
  }
  if (!variance_in_target_) return difference;
  for (int k = 0; k < 4; ++k) {
    if (!(prior.variance[k] > 0)) {
      throw Error("the variance of a prior box is ", prior.variance[k], ", expected more than 0");
    }
    difference[k] /= prior.variance[k];
  }
  return difference;
}

float LocationLoss::Value(const BoxCode::Values& difference) const {
  float sum = 0;
  for (const float d : difference) {
    const float size = std::abs(d);
    sum += smooth_ && !(size < 1) ? size - 0.5f : 0.5f * d * d;
  }
  return sum;
}

float LocationLoss::Slope(float difference) const {
  if (!smooth_ || std::abs(difference) < 1) return difference;
  return difference > 0 ? 1.0f : difference < 0 ? -1.0f : difference;
}

}  // namespace millrace::inline nn
