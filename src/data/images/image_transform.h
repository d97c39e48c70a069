#ifndef MILLRACE_DATA_IMAGES_IMAGE_TRANSFORM_H_
#define MILLRACE_DATA_IMAGES_IMAGE_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/images/image_decoder.h"
#include "data/images/noise.h"
#include "data/images/pixel_reader.h"
#include "data/images/resize_policy.h"
#include "data/record_transform.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// The changes of SSD that data layers without boxes make, too: resize_param, then noise_param.

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

// Datums to images and labels: decodes (data/images/pixel_reader.h), changes as SSD does
// (data/images/image_transform.h), then transforms (data/transformer.h).

// Tops: C x H x W values, and the label. `any_size`: images may have sizes of their own.
class ImageTransform : public RecordTransform {
 public:
  // `changes`: may be none.
  ImageTransform(const PixelReader& reader, const Transformer& transformer,
                 std::optional<ImageChanges> changes = {}, bool any_size = false);

  const std::vector<Shape>& shapes() const override { return shapes_; }
  bool varies() const override { return any_size_; }
  void Read(const std::string& source, const RecordView& record, uint64_t item) override;
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;
  std::optional<PixelRule> pixel_rule() const override;
  bool ApplyPixels(const std::string& source, const RecordView& record, uint64_t item,
                   uint8_t* pixels, TransformChoice* choice, float* const* tops) override;

 private:
  // Decodes and changes the image; the result is valid until the next call.
  DatumView Changed(const std::string& source, const RecordView& record, uint64_t item);

  PixelReader reader_;
  std::optional<ImageChanges> changes_;
  Image changed_;
  Transformer transformer_;
  bool any_size_;
  DatumView read_;  // by Read
  std::vector<Shape> shapes_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_TRANSFORM_H_
