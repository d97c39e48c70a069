#include "data/window/window_source.h"

#include <glog/logging.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "data/datum_view.h"
#include "data/images/mean_image.h"
#include "data/images/pixel_reader.h"
#include "data/images/resize.h"
#include "data/transformer.h"
#include "data/window/window_file.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

// The image files of a window file. Thread-safe.
class WindowImages {
 public:
  WindowImages(std::string file, std::string root_folder, bool cached,
               std::vector<std::string> names)
      : file_(std::move(file)),
        root_folder_(std::move(root_folder)),
        cached_(cached),
        names_(std::move(names)),
        bytes_(names_.size()) {}

  const std::string& file() const { return file_; }
  const std::string& name(uint32_t image) const { return names_[image]; }

  std::shared_ptr<const std::string> Read(uint32_t image) {
    if (cached_) {
      std::lock_guard lock(mutex_);
      if (bytes_[image]) return bytes_[image];
    }
    std::shared_ptr<const std::string> bytes;
    try {
      bytes = std::make_shared<const std::string>(ReadFile(root_folder_ + names_[image]));
    } catch (const Error& error) {
      throw Error(file_, ": ", error.what());
    }
    if (cached_) {
      std::lock_guard lock(mutex_);
      bytes_[image] = bytes;
    }
    return bytes;
  }

 private:
  const std::string file_, root_folder_;
  const bool cached_;
  const std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const std::string>> bytes_;  // of the images read, if cached_
};

class WindowSource : public DataSource {
 public:
  WindowSource(std::shared_ptr<WindowImages> images, std::vector<Window> windows)
      : images_(std::move(images)), windows_(std::move(windows)) {}

  const std::string& path() const override { return images_->file(); }
  uint64_t size() const override { return windows_.size(); }
  std::unique_ptr<RecordReader> MakeReader(bool) override {
    return std::make_unique<Reader>(*this);
  }

 private:
  class Reader : public RecordReader {
   public:
    explicit Reader(const WindowSource& source) : source_(source) {}

    RecordView At(uint64_t index) override {
      const Window& window = source_.windows_[index];
      caffe::Datum datum;
      datum.set_encoded(true);
      datum.set_data(*source_.images_->Read(window.image));
      datum.set_label(window.label);
      for (const int32_t corner : {window.x1, window.y1, window.x2, window.y2}) {
        datum.add_float_data(static_cast<float>(corner));
      }
      const auto owner = std::make_shared<const std::string>(datum.SerializeAsString());
      return {source_.images_->name(window.image), *owner, 0, owner};
    }

   private:
    const WindowSource& source_;
  };

  const std::shared_ptr<WindowImages> images_;
  const std::vector<Window> windows_;
};

}  // namespace

std::pair<std::shared_ptr<DataSource>, std::shared_ptr<DataSource>> OpenWindows(
    const caffe::WindowDataParameter& param) {
  const std::string& path = param.source();
  WindowFile file;
  try {
    file = ParseWindowFile(ReadFile(path), path, param.fg_threshold(), param.bg_threshold());
  } catch (const Error& error) {
    throw FieldError("window_data_param.source", error.what());
  }
  if (file.objects.empty()) {
    throw FieldError("window_data_param.fg_threshold", path, ": no window overlaps by ",
                     param.fg_threshold(), " or more, expected at least one");
  }
  if (file.background.empty()) {
    throw FieldError("window_data_param.bg_threshold", path, ": no window overlaps by less than ",
                     param.bg_threshold(), ", expected at least one");
  }
  const auto images = std::make_shared<WindowImages>(path, param.root_folder(),
                                                     param.cache_images(), std::move(file.images));
  return {std::make_shared<WindowSource>(images, std::move(file.background)),
          std::make_shared<WindowSource>(images, std::move(file.objects))};
}

WindowTransform::WindowTransform(const caffe::LayerParameter& layer, uint64_t seed, uint64_t stream)
    : mirror_(layer.transform_param().mirror()),
      scale_(layer.window_data_param().scale()),
      seed_(seed),
      stream_(stream),
      decoder_(ImageColor::kColor) {
  const caffe::WindowDataParameter& window = layer.window_data_param();
  const caffe::TransformationParameter& transform = layer.transform_param();
  RefuseAnnotatedFields(transform);
  if (transform.crop_h() > 0 || transform.crop_w() > 0) {
    throw FieldError("transform_param.crop_h",
                     "or crop_w given, expected crop_size: windows are square");
  }
  if (transform.crop_size() == 0 || transform.crop_size() > kMaxResizedSide) {
    throw FieldError("transform_param.crop_size", "is ", transform.crop_size(), ", expected 1 to ",
                     kMaxResizedSide, ", the size that windows get");
  }
  crop_.size = static_cast<int>(transform.crop_size());
  if (window.context_pad() > (transform.crop_size() - 1) / 2) {
    throw FieldError("window_data_param.context_pad", "is ", window.context_pad(),
                     ", expected less than half of crop_size, ", transform.crop_size());
  }
  crop_.context_pad = static_cast<int>(window.context_pad());
  if (window.crop_mode() != "warp" && window.crop_mode() != "square") {
    throw FieldError("window_data_param.crop_mode", "is '", window.crop_mode(),
                     "', expected warp or square");
  }
  crop_.square = window.crop_mode() == "square";
  if (transform.scale() != 1) {
    LOG(WARNING) << "layer '" << layer.name() << "': transform_param.scale is ignored, as in Caffe;"
                 << " window_data_param.scale counts";
  }
  const int values = transform.mean_value_size();
  if (transform.has_mean_file() && values > 0) {
    throw FieldError("transform_param.mean_value",
                     "is given together with mean_file, expected one of them");
  }
  if (values > 1 && values != kChannels) {
    throw FieldError("transform_param.mean_value", "is given ", values,
                     " times, expected once or once for each of ", kChannels, " channels");
  }
  mean_values_.assign(kChannels, values == 1 ? transform.mean_value(0) : 0.0f);
  if (values > 1) mean_values_.assign(transform.mean_value().begin(), transform.mean_value().end());
  if (transform.has_mean_file()) LoadMean(transform);
  shapes_ = {{kChannels, crop_.size, crop_.size}, {}};
}

void WindowTransform::LoadMean(const caffe::TransformationParameter& param) {
  MeanImage mean;
  try {
    mean = LoadMeanImage(param.mean_file());
  } catch (const Error& error) {
    throw FieldError("transform_param.mean_file", error.what());
  }
  const int64_t offset = (mean.width - crop_.size) / 2;
  if (mean.channels != kChannels || mean.width < crop_.size || mean.height < crop_.size + offset) {
    throw FieldError("transform_param.mean_file", param.mean_file(), ": holds an image of ",
                     mean.channels, " x ", mean.height, " x ", mean.width, ", expected ", kChannels,
                     " channels and room for ", crop_.size, " x ", crop_.size, " values from ",
                     offset, " on");
  }
  mean_image_ = std::move(mean.values);
  mean_height_ = static_cast<int>(mean.height);
  mean_width_ = static_cast<int>(mean.width);
}

void WindowTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                            float* const* tops) {
  const DatumView datum = ReadDatum(source, record.key, record.value);
  float corners[4];
  CHECK(datum.encoded && datum.float_count == 4) << "not a record of a window";
  CopyFloats(datum, corners);
  Rng rng(seed_, {kRngTransform, stream_, item});
  const bool mirror = mirror_ && rng.Below(2) == 1;
  try {
    const Image& image = decoder_.Decode(datum.data);
    WarnIfEarly(decoder_, source, record.key);
    WindowPlace window;
    window.x1 = static_cast<int>(corners[0]), window.y1 = static_cast<int>(corners[1]);
    window.x2 = static_cast<int>(corners[2]), window.y2 = static_cast<int>(corners[3]);
    Write(image, PlaceWindow(crop_, mirror, image.height, image.width, window), mirror, tops[0]);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
  *tops[1] = static_cast<float>(datum.label);
}

void WindowTransform::Write(const Image& image, const WindowPlace& place, bool mirror, float* out) {
  const int64_t size = crop_.size, image_plane = int64_t{image.height} * image.width;
  std::fill_n(out, kChannels * size * size, 0.0f);
  plane_.resize(static_cast<size_t>(place.height) * place.width);
  const int64_t mean_offset = (mean_width_ - size) / 2;
  for (int64_t c = 0; c < kChannels; ++c) {
    const uint8_t* const first =
        image.values.data() + c * image_plane + int64_t{place.y1} * image.width + place.x1;
    resizer_.Resize({first, place.y2 - place.y1 + 1, place.x2 - place.x1 + 1, image.width},
                    place.height, place.width, plane_.data());
    for (int64_t y = 0; y < place.height; ++y) {
      const uint8_t* const row = plane_.data() + y * place.width;
      float* const to = out + (c * size + place.pad_y + y) * size + place.pad_x;
      const float* const mean =
          mean_image_.empty()
              ? nullptr
              : &mean_image_[(c * mean_height_ + mean_offset + place.pad_y + y) * mean_width_ +
                             mean_offset + place.pad_x];
      for (int64_t x = 0; x < place.width; ++x) {
        const float pixel = row[mirror ? place.width - 1 - x : x];
        to[x] = (pixel - (mean ? mean[x] : mean_values_[c])) * scale_;
      }
    }
  }
}

}  // namespace millrace::inline data
