// Resizes images, and moves boxes with them, as resize_param says and SSD does it:
//
//   WARP                    to height x width
//   FIT_SMALL_SIZE          so that the image just covers height x width, in its proportions
//   FIT_LARGE_SIZE_AND_PAD  so that it just fits into height x width, in its proportions, with
//   equal
//                           borders: of pad_value, of mirrored pixels, or of the nearest pixel
//
// One of the given ways of interpolation is drawn for each image. `prob` is not read, as in SSD.
#ifndef MILLRACE_DATA_IMAGES_RESIZE_POLICY_H_
#define MILLRACE_DATA_IMAGES_RESIZE_POLICY_H_

#include "base/rng.h"
#include "data/box.h"
#include "data/images/image_decoder.h"
#include "data/images/resize.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Used by one thread at a time.
class ResizePolicy {
 public:
  // `channels`: of all images. Throws FieldError of a field of transform_param.resize_param.
  ResizePolicy(const caffe::ResizeParameter& param, int channels);

  // Whether all images get the same size.
  bool constant_size() const {
    return param_.resize_mode() != caffe::ResizeParameter::FIT_SMALL_SIZE;
  }

  struct Size {
    int height, width;
  };
  // The new size of an image.
  Size SizeOf(int height, int width) const;

  // Throws Error without naming the image.
  void Apply(Rng* rng, Image* image);

  // Where a box of an image of that size lies afterwards.
  Box Move(const Box& box, int height, int width) const;
  // With FIT_SMALL_SIZE, height_scale and width_scale, the boxes of a part `crop` of the resized
  // image are given in units of these instead of the part's size. Throws Error, without naming the
  // image, if the part is smaller.
  Box Extrapolate(const Box& box, const Box& crop, int height, int width) const;

 private:
  bool pads() const {
    return param_.resize_mode() == caffe::ResizeParameter::FIT_LARGE_SIZE_AND_PAD;
  }
  // The size of the image within the borders.
  Size Inner(int height, int width) const;
  void Pad(const Image& from, Image* to) const;

  const caffe::ResizeParameter param_;
  Resampler resampler_;
  Image resized_, padded_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_RESIZE_POLICY_H_
