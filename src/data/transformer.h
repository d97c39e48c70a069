// Transforms a stored image to the input of a net (TransformationParameter):
//
//   out[c][y][x] = (in[c][y0 + y][x0 + x'] - mean) * scale
//
// where x' = x, or width - 1 - x if mirrored; (x0, y0) is the corner of the crop, random in TRAIN
// and central in TEST; `mean` is one number, one per channel, or an image of the input's size,
// taken at the position of the input value.
#ifndef MILLRACE_DATA_TRANSFORMER_H_
#define MILLRACE_DATA_TRANSFORMER_H_

#include <cstdint>
#include <vector>

#include "data/datum_view.h"
#include "proto/caffe.pb.h"

namespace millrace {

struct ImageSize {
  int channels = 0, height = 0, width = 0;
  int64_t count() const { return int64_t{channels} * height * width; }
};

// Used by one thread at a time; copies are independent.
class Transformer {
 public:
  // Reads the mean file and takes the sizes from `first`, raw pixels that passed CheckDatum (as
  // from a PixelReader). Throws FieldError if the settings do not fit each other or `first`.
  Transformer(const caffe::TransformationParameter& param, caffe::Phase phase, uint64_t seed,
              uint64_t stream, const DatumView& first);

  const ImageSize& output() const { return output_; }

  // Writes output().count() floats to `out`. `datum` is raw pixels that passed CheckDatum. The
  // random choices are a function of the seed, the stream and `item`, the datum's number in the
  // stream. Throws Error, without naming the record, if the size of `datum` differs from the size
  // that the net was built for.
  void Apply(const DatumView& datum, uint64_t item, float* out);

 private:
  struct Choice {
    int x = 0, y = 0;  // corner of the crop
    bool mirror = false;
  };

  void LoadMean(const caffe::TransformationParameter& param);
  void CheckSize(const DatumView& datum) const;
  Choice Choose(const DatumView& datum, uint64_t item) const;
  template <typename T>
  void Copy(const T* in, const DatumView& datum, const Choice& choice, float* out) const;

  float scale_;
  int crop_;
  bool mirror_, random_crop_;
  uint64_t seed_, stream_;
  ImageSize input_, output_;
  std::vector<float> mean_values_;  // one per channel
  std::vector<float> mean_image_;   // of the input's size, or empty
  std::vector<float> floats_;       // scratch
};

}  // namespace millrace

#endif  // MILLRACE_DATA_TRANSFORMER_H_
