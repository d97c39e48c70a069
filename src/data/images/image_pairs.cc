#include "data/images/image_pairs.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/utf8.h"
#include "data/images/pixel_reader.h"

namespace millrace::inline data {
namespace {

constexpr std::string_view kSpace = " \t\r\f\v";

// Removes the first word of `line` and returns it; "" if there is none.
std::string_view TakeWord(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kSpace), line->size()));
  const std::string_view word = line->substr(0, line->find_first_of(kSpace));
  line->remove_prefix(word.size());
  return word;
}

bool IsByte(std::string_view word) {
  int value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value >= 0 && value <= 255;
}

const char* ExpectedOf(PairLabels labels) {
  switch (labels) {
    case PairLabels::kImage:
      return "the names of an image and of its label image";
    case PairLabels::kNumber:
      return "the name of an image and its label, 0 to 255";
    case PairLabels::kNone:
      break;
  }
  return "the name of an image, and at most one word more";
}

}  // namespace

std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file,
                                       PairLabels labels) {
  std::vector<ImagePair> pairs;
  text = WithoutByteOrderMark(text);
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    std::string_view rest = line;
    const std::string_view image = TakeWord(&rest), label = TakeWord(&rest);
    if (image.empty()) continue;
    const bool fits = labels == PairLabels::kNone     ? true
                      : labels == PairLabels::kNumber ? IsByte(label)
                                                      : !label.empty();
    if (!fits || !TakeWord(&rest).empty()) {
      throw Error(file, ":", number, ": ", Quoted(line.substr(0, 200)), ": expected ",
                  ExpectedOf(labels));
    }
    pairs.push_back({std::string(image), labels == PairLabels::kNone ? "" : std::string(label)});
  }
  if (pairs.empty()) throw Error(file, ": lists no images");
  return pairs;
}

namespace {

// A record: the size of the image's file, that file, the label image's file or the label.
std::string RecordOf(const std::string& image, const std::string& label) {
  const uint64_t size = image.size();
  std::string record(sizeof(size), '\0');
  memcpy(record.data(), &size, sizeof(size));
  return record + image + label;
}

std::string ReadImageFile(const std::string& file) {
  std::string bytes = ReadFile(file);
  if (bytes.empty()) throw Error(file, ": is empty, expected an image");
  return bytes;
}

}  // namespace

ImagePairFiles FilesOfPair(std::string_view record) {
  uint64_t size = 0;
  CHECK_GE(record.size(), sizeof(size));
  memcpy(&size, record.data(), sizeof(size));
  record.remove_prefix(sizeof(size));
  CHECK_LE(size, record.size());
  return {record.substr(0, size), record.substr(size)};
}

class ImagePairSource::Reader : public RecordReader {
 public:
  explicit Reader(const ImagePairSource& source) : source_(source) {}

  RecordView At(uint64_t index) override {
    const ImagePair& pair = source_.pairs_[index];
    std::shared_ptr<const std::string> owner;
    try {
      const bool of_image = source_.labels_ == PairLabels::kImage;
      owner = std::make_shared<const std::string>(
          RecordOf(ReadImageFile(source_.root_folder_ + pair.image),
                   of_image ? ReadImageFile(source_.root_folder_ + pair.label) : pair.label));
    } catch (const Error& error) {
      throw Error(source_.path_, ": ", error.what());
    }
    return {pair.image, *owner, 0, owner};
  }

 private:
  const ImagePairSource& source_;
};

ImagePairSource::ImagePairSource(const std::string& list_file, const std::string& root_folder,
                                 PairLabels labels)
    : path_(list_file),
      root_folder_(root_folder),
      labels_(labels),
      pairs_(ParseImagePairs(ReadFile(list_file), list_file, labels)) {}

std::unique_ptr<RecordReader> ImagePairSource::MakeReader(bool) {
  return std::make_unique<Reader>(*this);
}

ImagePairReader::ImagePairReader(const Settings& settings)
    : settings_(settings),
      decoder_(settings.is_color ? ImageColor::kColor : ImageColor::kGray),
      label_decoder_(ImageColor::kGray) {}

void ImagePairReader::Read(std::string_view source, const RecordView& record) {
  const ImagePairFiles files = FilesOfPair(record.value);
  if (settings_.height > 0) {
    resampler_.Resize(decoder_.Decode(files.image), settings_.height, settings_.width,
                      Interpolation::kLinear, &image_);
  } else {
    image_ = decoder_.Decode(files.image);
  }
  WarnIfEarly(decoder_, source, record.key);
  if (settings_.labels == PairLabels::kImage) {
    ReadLabel(files.label);
    WarnIfEarly(label_decoder_, source, record.key);
    return;
  }
  int value = settings_.no_label;
  std::from_chars(files.label.data(), files.label.data() + files.label.size(), value);
  label_ = {1, image_.height, image_.width, {}};
  label_.values.assign(int64_t{image_.height} * image_.width, static_cast<uint8_t>(value));
}

void ImagePairReader::ReadLabel(std::string_view label) {
  const int factor = settings_.divide_labels;
  try {
    const Image& decoded = label_decoder_.Decode(label);
    if (settings_.height > 0) {
      resampler_.Resize(decoded, settings_.height / factor, settings_.width / factor,
                        Interpolation::kNearest, &label_);
    } else {
      label_ = decoded;
    }
  } catch (const Error& error) {
    throw Error("its label image ", error.what());
  }
  if (factor == 1 && (label_.height != image_.height || label_.width != image_.width)) {
    throw Error("has a label image of ", label_.height, " x ", label_.width, ", expected ",
                image_.height, " x ", image_.width, " like the image");
  }
}

}  // namespace millrace::inline data
