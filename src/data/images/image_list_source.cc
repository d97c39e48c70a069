#include "data/images/image_list_source.h"

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

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
