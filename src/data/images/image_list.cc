#include "data/images/image_list.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/utf8.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {
namespace {

// Whether `label` is a finite number, which need not be whole.
bool IsFraction(std::string_view label) {
  double value = 0;
  const char* const end = label.data() + label.size();
  const auto result = std::from_chars(label.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && std::isfinite(value);
}

// Sets *cut if digits of the label are ignored.
ListedImage ParseLine(std::string_view line, const std::string& file, uint64_t number, bool* cut) {
  const size_t space = line.rfind(' ');
  ListedImage image;
  if (space != std::string_view::npos && space > 0) {
    const std::string_view label = line.substr(space + 1);
    const char* const end = label.data() + label.size();
    const auto result = std::from_chars(label.data(), end, image.label);
    const bool whole = result.ptr == end;
    if (result.ec == std::errc() && (whole || IsFraction(label))) {
      *cut |= !whole;
      image.name = line.substr(0, space);
      return image;
    }
  }
  const bool tab = line.find('\t') != std::string_view::npos;
  throw Error(file, ":", number, ": ", Quoted(line.substr(0, 200)),
              ": expected the name of an image, a space", tab ? ", not a tab," : "",
              " and a label (an integer)");
}

}  // namespace

std::vector<ListedImage> ParseImageList(std::string_view text, const std::string& file) {
  std::vector<ListedImage> images;
  text = WithoutByteOrderMark(text);
  uint64_t number = 0;
  bool warned = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    bool cut = false;
    if (!line.empty()) images.push_back(ParseLine(line, file, number, &cut));
    if (cut && !warned) {
      LOG(WARNING) << file << ":" << number << ": '" << line.substr(0, 200)
                   << "': labels are integers; of other numbers the fraction is cut";
      warned = true;
    }
  }
  if (images.empty()) throw Error(file, ": lists no images");
  return images;
}

std::string HintOfRootFolder(const std::string& root_folder) {
  std::error_code ignored;
  if (root_folder.ends_with('/') || !std::filesystem::is_directory(root_folder, ignored)) return "";
  return StrCat("; names follow the root folder '", root_folder, "' as it is, without a '/'");
}

std::string EncodedRecord(const std::string& file, int32_t label,
                          const std::vector<float>& values) {
  caffe::Datum datum;
  *datum.mutable_data() = ReadFile(file);
  if (datum.data().empty()) throw Error(file, ": is empty, expected an image");
  datum.set_label(label);
  datum.set_encoded(true);
  datum.mutable_float_data()->Add(values.begin(), values.end());
  return datum.SerializeAsString();
}

class ImageListSource::Reader : public RecordReader {
 public:
  explicit Reader(const ImageListSource& source) : source_(source) {}

  RecordView At(uint64_t index) override {
    const ListedImage& image = source_.images_[index];
    std::string record;
    try {
      record = EncodedRecord(source_.root_folder_ + image.name, image.label);
    } catch (const Error& error) {
      throw Error(source_.path_, ": ", error.what(), HintOfRootFolder(source_.root_folder_));
    }
    const auto owner = std::make_shared<const std::string>(std::move(record));
    return {image.name, *owner, 0, owner};
  }

 private:
  const ImageListSource& source_;
};

ImageListSource::ImageListSource(const std::string& list_file, const std::string& root_folder)
    : path_(list_file),
      root_folder_(root_folder),
      images_(ParseImageList(ReadFile(list_file), list_file)) {}

std::vector<int32_t> ImageListSource::Labels() const {
  std::vector<int32_t> labels;
  for (const ListedImage& image : images_) labels.push_back(image.label);
  return labels;
}

std::unique_ptr<RecordReader> ImageListSource::MakeReader(bool) {
  return std::make_unique<Reader>(*this);
}

}  // namespace millrace::inline data
