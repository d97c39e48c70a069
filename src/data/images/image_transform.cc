#include "data/images/image_transform.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "data/datum_view.h"

namespace millrace::inline data {

ImageChanges::ImageChanges(const caffe::TransformationParameter& param, int channels, uint64_t seed,
                           uint64_t stream)
    : channels_(channels), seed_(seed), stream_(stream) {
  if (param.has_resize_param()) resize_.emplace(param.resize_param(), channels);
  if (param.has_noise_param()) noise_.emplace(param.noise_param(), channels);
}

ResizePolicy::Size ImageChanges::SizeOf(int height, int width) const {
  return resize_ ? resize_->SizeOf(height, width) : ResizePolicy::Size{height, width};
}

void ImageChanges::Apply(uint64_t item, Image* image) {
  if (image->channels != channels_) {
    throw Error("has ", image->channels, " channels, expected ", channels_,
                " like the first record");
  }
  Rng rng(seed_, {kRngAugment, stream_, item});
  if (resize_) resize_->Apply(&rng, image);
  if (noise_) noise_->Apply(&rng, image);
}

namespace {

// Runs `body`, whose errors do not name the record.
template <typename Body>
void NamingRecord(const std::string& source, const RecordView& record, Body body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
}

}  // namespace

ImageTransform::ImageTransform(const PixelReader& reader, const Transformer& transformer,
                               std::optional<ImageChanges> changes, bool any_size)
    : reader_(reader),
      changes_(std::move(changes)),
      transformer_(transformer),
      any_size_(any_size) {
  const ImageSize& size = transformer_.output();
  shapes_ = {{size.channels, size.height, size.width}, {}};
}

DatumView ImageTransform::Changed(const std::string& source, const RecordView& record,
                                  uint64_t item) {
  DatumView datum = reader_.Read(source, record.key, record.value);
  if (!changes_) return datum;
  NamingRecord(source, record, [&] {
    if (datum.data.empty()) throw Error("holds floats, expected bytes or an image file");
    ResizeImage(datum.channels, datum.height, datum.width, &changed_);
    std::copy(datum.data.begin(), datum.data.end(), changed_.values.begin());
    changes_->Apply(item, &changed_);
  });
  const int32_t label = datum.label;
  datum = PixelsOf(changed_);
  datum.label = label;
  return datum;
}

void ImageTransform::Read(const std::string& source, const RecordView& record, uint64_t item) {
  read_ = Changed(source, record, item);
  NamingRecord(source, record, [&] {
    const ImageSize size = transformer_.OutputOf(read_);
    shapes_[0] = {size.channels, size.height, size.width};
  });
}

void ImageTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                           float* const* tops) {
  const DatumView datum = any_size_ ? read_ : Changed(source, record, item);
  if (any_size_) {
    transformer_.Write(datum, transformer_.Choose(datum, item), tops[0]);
  } else {
    NamingRecord(source, record, [&] { transformer_.Apply(datum, item, tops[0]); });
  }
  *tops[1] = static_cast<float>(datum.label);
}

std::optional<PixelRule> ImageTransform::pixel_rule() const {
  if (any_size_) return {};
  return transformer_.pixel_rule();
}

bool ImageTransform::ApplyPixels(const std::string& source, const RecordView& record, uint64_t item,
                                 uint8_t* pixels, TransformChoice* choice, float* const* tops) {
  const DatumView datum = Changed(source, record, item);
  bool bytes = false;
  NamingRecord(source, record,
               [&] { bytes = transformer_.ApplyPixels(datum, item, pixels, choice); });
  if (bytes) *tops[1] = static_cast<float>(datum.label);
  return bytes;
}

}  // namespace millrace::inline data
