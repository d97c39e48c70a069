// Transforms a stored image to the input of a net (TransformationParameter):
//
//   out[c][y][x] = (in[c][y0 + y][x0 + x'] - mean) * scale
//
// where x' = x, or width - 1 - x if mirrored; (x0, y0) is the corner of the crop, of crop_size or
// crop_h x crop_w, random in TRAIN and central in TEST; `mean` is one number, one per channel, or
// an image of the input's size, taken at the position of the input value.
#ifndef MILLRACE_DATA_TRANSFORMER_H_
#define MILLRACE_DATA_TRANSFORMER_H_

#include <cstdint>
#include <vector>

#include "data/datum_view.h"
#include "data/images/pixel_rule.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Throws FieldError for the fields of SSD that only AnnotatedData layers read; `resizes`: the layer
// reads resize_param and noise_param.
void RefuseAnnotatedFields(const caffe::TransformationParameter& param, bool resizes = false);

// Used by one thread at a time; copies are independent.
class Transformer {
 public:
  // Reads the mean file and takes the sizes from `first`, raw pixels that passed CheckDatum (as
  // from a PixelReader). Throws FieldError if the settings do not fit each other or `first`.
  Transformer(const caffe::TransformationParameter& param, caffe::Phase phase, uint64_t seed,
              uint64_t stream, const DatumView& first);

  const ImageSize& output() const { return output_; }
  // Whether all images get output(), or are refused: by a crop or a mean image.
  bool constant_size() const { return crops() || !mean_image_.empty(); }

  // Writes output().count() floats to `out`. `datum` is raw pixels that passed CheckDatum. The
  // random choices are a function of the seed, the stream and `item`, the datum's number in the
  // stream. Throws Error, without naming the record, if the size of `datum` differs from the size
  // that the net was built for.
  void Apply(const DatumView& datum, uint64_t item, float* out);

  // The same in two parts, the second of which a device does: ApplyPixels, then the computation of
  // pixel_rule(), which is for one image.
  PixelRule pixel_rule() const;
  // Writes output().count() bytes to `pixels` and the choice of the item to `choice`. Returns false
  // if `datum` holds floats. Throws Error as Apply does.
  bool ApplyPixels(const DatumView& datum, uint64_t item, uint8_t* pixels,
                   TransformChoice* choice) const;

  // The same in steps, for images whose sizes may differ. The size of what Write writes: that of
  // the crop, or that of `datum`. Throws Error if it is too small for the crop, if it has other
  // channels, or if there is a mean image of another size.
  ImageSize OutputOf(const DatumView& datum) const;
  TransformChoice Choose(const DatumView& datum, uint64_t item) const;
  void Write(const DatumView& datum, const TransformChoice& choice, float* out);

 private:
  void ReadCrop(const caffe::TransformationParameter& param);
  void LoadMean(const caffe::TransformationParameter& param);
  void CheckSize(const DatumView& datum) const;
  bool crops() const { return crop_height_ > 0; }
  // Calls body(channel, at, length) for the rows of the crop, which begin at value `at` of the
  // input. An area that is contiguous in input and output is one row, unless rows are to be
  // mirrored.
  template <typename Body>
  void ForEachRow(const DatumView& datum, const TransformChoice& choice, bool mirrors,
                  Body body) const;
  template <typename T>
  void Copy(const T* in, const DatumView& datum, const TransformChoice& choice, float* out) const;

  float scale_;
  int crop_height_ = 0, crop_width_ = 0;
  bool mirror_, random_crop_;
  uint64_t seed_, stream_;
  ImageSize input_, output_;
  std::vector<float> mean_values_;  // one per channel
  std::vector<float> mean_image_;   // of the input's size, or empty
  std::vector<float> floats_;       // scratch
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_TRANSFORMER_H_
