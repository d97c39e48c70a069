// The changes of SSD that data layers without boxes make, too: resize_param, then noise_param.
#ifndef MILLRACE_DATA_ANNOTATED_IMAGE_CHANGES_H_
#define MILLRACE_DATA_ANNOTATED_IMAGE_CHANGES_H_

#include <cstdint>
#include <optional>

#include "data/annotated/noise.h"
#include "data/annotated/resize_policy.h"
#include "data/image_decoder.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Used by one thread at a time.
class ImageChanges {
 public:
  // `channels`: of all images. Throws FieldError.
  ImageChanges(const caffe::TransformationParameter& param, int channels, uint64_t seed,
               uint64_t stream);

  // Whether there are any.
  bool any() const { return resize_ || noise_; }
  // Whether all images get the same size.
  bool constant_size() const { return resize_ && resize_->constant_size(); }
  // The size of an image afterwards.
  ResizePolicy::Size SizeOf(int height, int width) const;
  // The random choices are a function of the seed, the stream and `item`. Throws Error without
  // naming the image.
  void Apply(uint64_t item, Image* image);

 private:
  const int channels_;
  const uint64_t seed_, stream_;
  std::optional<ResizePolicy> resize_;
  std::optional<Noise> noise_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_ANNOTATED_IMAGE_CHANGES_H_
