// Datums to images and labels: decodes (data/pixel_reader.h), changes as SSD does
// (data/annotated/image_changes.h), then transforms (data/transformer.h).
#ifndef MILLRACE_DATA_IMAGE_TRANSFORM_H_
#define MILLRACE_DATA_IMAGE_TRANSFORM_H_

#include <optional>
#include <string>
#include <vector>

#include "data/annotated/image_changes.h"
#include "data/pixel_reader.h"
#include "data/record_transform.h"
#include "data/transformer.h"

namespace millrace::inline data {

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

#endif  // MILLRACE_DATA_IMAGE_TRANSFORM_H_
