// Changes of pixels (noise_param), as SSD makes them, in this order: decolorize, gauss_blur
// (7 x 7, sigma 1.5), hist_eq, jpeg, erode (a cross of 3 x 3), posterize (4 levels), inverse,
// saltpepper, convert_to_hsv. Results are those of OpenCV 4.6, those of gauss_blur up to 1. Each
// image has them all, whatever `prob`, which SSD does not read.
#ifndef MILLRACE_DATA_IMAGES_NOISE_H_
#define MILLRACE_DATA_IMAGES_NOISE_H_

#include "base/rng.h"
#include "data/images/image_decoder.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Used by one thread at a time.
class Noise {
 public:
  // `channels`: of all images. Throws FieldError of a field of transform_param.noise_param: clahe
  // and convert_to_lab are not there.
  Noise(const caffe::NoiseParameter& param, int channels);

  // Throws Error without naming the image.
  void Apply(Rng* rng, Image* image);

 private:
  void SaltAndPepper(Rng* rng, Image* image) const;

  const caffe::NoiseParameter param_;
  ImageDecoder decoder_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_NOISE_H_
