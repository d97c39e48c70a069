// Datums to images and labels: decodes (data/pixel_reader.h), then transforms (data/transformer.h).
#ifndef MILLRACE_DATA_IMAGE_TRANSFORM_H_
#define MILLRACE_DATA_IMAGE_TRANSFORM_H_

#include <string>
#include <vector>

#include "data/pixel_reader.h"
#include "data/record_transform.h"
#include "data/transformer.h"

namespace millrace {

// Tops: C x H x W values, and the label.
class ImageTransform : public RecordTransform {
 public:
  ImageTransform(const PixelReader& reader, const Transformer& transformer);

  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;

 private:
  PixelReader reader_;
  Transformer transformer_;
  std::vector<Shape> shapes_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_IMAGE_TRANSFORM_H_
