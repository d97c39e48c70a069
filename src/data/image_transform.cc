#include "data/image_transform.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/datum_view.h"

namespace millrace::inline data {

ImageTransform::ImageTransform(const PixelReader& reader, const Transformer& transformer,
                               std::optional<ImageChanges> changes)
    : reader_(reader), changes_(std::move(changes)), transformer_(transformer) {
  const ImageSize& size = transformer_.output();
  shapes_ = {{size.channels, size.height, size.width}, {}};
}

void ImageTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                           float* const* tops) {
  DatumView datum = reader_.Read(source, record.key, record.value);
  const int32_t label = datum.label;
  try {
    if (changes_) {
      if (datum.data.empty()) throw Error("holds floats, expected bytes or an image file");
      ResizeImage(datum.channels, datum.height, datum.width, &changed_);
      std::copy(datum.data.begin(), datum.data.end(), changed_.values.begin());
      changes_->Apply(item, &changed_);
      datum = PixelsOf(changed_);
    }
    transformer_.Apply(datum, item, tops[0]);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
  *tops[1] = static_cast<float>(label);
}

}  // namespace millrace::inline data
