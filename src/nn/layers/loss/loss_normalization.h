// loss_param.normalization: the number Z that the sum of a loss is divided by. It is at least 1.
//   FULL        all positions
//   VALID       positions that are not ignored
//   BATCH_SIZE  outer positions
//   NONE        1
//   PRE_FIXED   loss_param.pre_fixed_normalizer, as in R-FCN
#ifndef MILLRACE_NN_LAYERS_LOSS_LOSS_NORMALIZATION_H_
#define MILLRACE_NN_LAYERS_LOSS_LOSS_NORMALIZATION_H_

#include <cstdint>
#include <optional>

#include "nn/layers/loss/loss_kernels.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

// The mode that a net file asks for. Without `normalization`, the legacy `normalize` means VALID
// (true) or BATCH_SIZE (false); without both it is `default_value`.
inline caffe::LossParameter::NormalizationMode NormalizationOf(
    const caffe::LossParameter& loss, caffe::LossParameter::NormalizationMode default_value) {
  if (loss.has_normalization()) return loss.normalization();
  if (!loss.has_normalize()) return default_value;
  return loss.normalize() ? caffe::LossParameter::VALID : caffe::LossParameter::BATCH_SIZE;
}

// Z for a loss over outer * inner positions; `default_value` as above.
inline LossNormalizer NormalizerOf(const caffe::LossParameter& loss,
                                   caffe::LossParameter::NormalizationMode default_value,
                                   int64_t outer, int64_t inner) {
  const caffe::LossParameter::NormalizationMode mode = NormalizationOf(loss, default_value);
  float fixed = 1;
  if (mode == caffe::LossParameter::FULL) fixed = static_cast<float>(outer * inner);
  if (mode == caffe::LossParameter::BATCH_SIZE) fixed = static_cast<float>(outer);
  if (mode == caffe::LossParameter::PRE_FIXED) fixed = loss.pre_fixed_normalizer();
  return {mode == caffe::LossParameter::VALID, fixed > 1 ? fixed : 1.0f};
}

// The label that does not count.
inline std::optional<int> IgnoredLabelOf(const caffe::LossParameter& loss) {
  return loss.has_ignore_label() ? std::optional<int>(loss.ignore_label()) : std::nullopt;
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_LOSS_NORMALIZATION_H_
