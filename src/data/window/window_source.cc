#include "data/window/window_source.h"

#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/window/window_file.h"

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

}  // namespace millrace::inline data
