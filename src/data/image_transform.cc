#include "data/image_transform.h"

#include "base/error.h"
#include "data/datum_view.h"

namespace millrace {

ImageTransform::ImageTransform(const PixelReader& reader, const Transformer& transformer)
    : reader_(reader), transformer_(transformer) {
  const ImageSize& size = transformer_.output();
  shapes_ = {{size.channels, size.height, size.width}, {}};
}

void ImageTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                           float* const* tops) {
  const DatumView datum = reader_.Read(source, record.key, record.value);
  try {
    transformer_.Apply(datum, item, tops[0]);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
  *tops[1] = static_cast<float>(datum.label);
}

}  // namespace millrace
