#ifndef MILLRACE_DATA_IMAGES_IMAGE_LIST_H_
#define MILLRACE_DATA_IMAGES_IMAGE_LIST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/data_source.h"

namespace millrace::inline data {

// List files of images, as ImageData layers and convert_imageset read them: a line per image,
//
//   NAME LABEL
//
// The last space separates the label, an integer, so names may contain spaces. Lines of white space
// only, and white space at the end of a line, are ignored. Of other numbers the digits behind the
// whole number are cut, as by Caffe, with a warning.
struct ListedImage {
  std::string name;  // relative to a root folder
  int32_t label = 0;
};

// The images of `text`, in order. Throws Error naming `file` and the line if a line has no label,
// or if there are no lines.
std::vector<ListedImage> ParseImageList(std::string_view text, const std::string& file);

// What errors about files of a list say besides if `root_folder` is a folder without a '/' at its
// end; "" otherwise.
std::string HintOfRootFolder(const std::string& root_folder);

// The images of a list file as records: encoded Datums, read from the image files on demand.

// A serialized Datum of an image file and its label, for the decoders of records. `values`: put
// into float_data. Throws Error naming the file if it cannot be read or is empty.
std::string EncodedRecord(const std::string& file, int32_t label,
                          const std::vector<float>& values = {});

// Keys are the names of the list. Thread-safe.
class ImageListSource : public DataSource {
 public:
  // `root_folder` is put before every name, as it is: it ends in '/' if it is a folder. Throws
  // Error naming the file if `list_file` cannot be read or parsed.
  ImageListSource(const std::string& list_file, const std::string& root_folder);

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return images_.size(); }
  // By record.
  std::vector<int32_t> Labels() const;
  // The readers read one image file per record.
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override;

 private:
  class Reader;

  const std::string path_, root_folder_;
  const std::vector<ListedImage> images_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_LIST_H_
