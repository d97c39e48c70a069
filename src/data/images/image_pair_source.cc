#include "data/images/image_pair_source.h"

#include <glog/logging.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace millrace::inline data {
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

}  // namespace millrace::inline data
