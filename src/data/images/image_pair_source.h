// The pairs of images, or images with labels, of a list file as records, read from the image files
// on demand.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIR_SOURCE_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIR_SOURCE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image_pair_list.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// The contents of the two files of a record of an ImagePairSource, views of its bytes. `label` is
// the label's digits or "" where pairs have no label image.
struct ImagePairFiles {
  std::string_view image, label;
};
ImagePairFiles FilesOfPair(std::string_view record);

// Keys are the names of the images. Thread-safe.
class ImagePairSource : public DataSource {
 public:
  // `root_folder` is put before every name, as it is. Throws Error naming the file if `list_file`
  // cannot be read or parsed.
  ImagePairSource(const std::string& list_file, const std::string& root_folder,
                  PairLabels labels = PairLabels::kImage);

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return pairs_.size(); }
  // The readers read the image files of a record.
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override;

 private:
  class Reader;

  const std::string path_, root_folder_;
  const PairLabels labels_;
  const std::vector<ImagePair> pairs_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIR_SOURCE_H_
