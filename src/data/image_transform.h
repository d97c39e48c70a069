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

// Tops: C x H x W values, and the label.
class ImageTransform : public RecordTransform {
 public:
  // `changes`: may be none.
  ImageTransform(const PixelReader& reader, const Transformer& transformer,
                 std::optional<ImageChanges> changes = {});

  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;

 private:
  PixelReader reader_;
  std::optional<ImageChanges> changes_;
  Image changed_;
  Transformer transformer_;
  std::vector<Shape> shapes_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGE_TRANSFORM_H_
