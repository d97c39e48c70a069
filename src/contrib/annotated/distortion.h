// Random changes of colours (distort_param), as SSD makes them: brightness, contrast, saturation,
// hue, the order of the channels, each with a probability of its own. In half of the cases the
// contrast is changed last but one instead of second.
#ifndef MILLRACE_CONTRIB_ANNOTATED_DISTORTION_H_
#define MILLRACE_CONTRIB_ANNOTATED_DISTORTION_H_

#include "base/rng.h"
#include "data/images/image_decoder.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Thread-safe.
class Distortion {
 public:
  // `channels`: of all images. Throws FieldError of a field of transform_param.distort_param.
  Distortion(const caffe::DistortionParameter& param, int channels);

  void Apply(Rng* rng, Image* image) const;

 private:
  void Brightness(Rng* rng, Image* image) const;
  void Contrast(Rng* rng, Image* image) const;
  void Saturation(Rng* rng, Image* image) const;
  void Hue(Rng* rng, Image* image) const;
  void Order(Rng* rng, Image* image) const;

  const caffe::DistortionParameter param_;
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_DISTORTION_H_
