#include "data/annotated/image_changes.h"

#include "base/error.h"
#include "base/rng.h"

namespace millrace::inline data {

ImageChanges::ImageChanges(const caffe::TransformationParameter& param, int channels, uint64_t seed,
                           uint64_t stream)
    : channels_(channels), seed_(seed), stream_(stream) {
  if (param.has_resize_param()) resize_.emplace(param.resize_param(), channels);
  if (param.has_noise_param()) noise_.emplace(param.noise_param(), channels);
}

ResizePolicy::Size ImageChanges::SizeOf(int height, int width) const {
  return resize_ ? resize_->SizeOf(height, width) : ResizePolicy::Size{height, width};
}

void ImageChanges::Apply(uint64_t item, Image* image) {
  if (image->channels != channels_) {
    throw Error("has ", image->channels, " channels, expected ", channels_,
                " like the first record");
  }
  Rng rng(seed_, {kRngAugment, stream_, item});
  if (resize_) resize_->Apply(&rng, image);
  if (noise_) noise_->Apply(&rng, image);
}

}  // namespace millrace::inline data
