// Makes a database of the records of many image files, with several threads.
#ifndef MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_
#define MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/database.h"
#include "data/images/convert_images.h"
#include "data/images/image_decoder.h"
#include "data/images/image_encoder.h"
#include "data/images/resize.h"

namespace millrace::inline data {

// One image file to one Datum, as convert_imageset stores it.
struct ImageRecordOptions {
  bool gray = false;                  // one channel instead of three
  int height = 0, width = 0;          // 0 and 0: the image's own
  int min_dim = 0, max_dim = 0;       // as in ConvertImagesOptions
  bool encoded = false;               // store an image file instead of pixels
  std::optional<ImageFormat> format;  // of that file; none: that of the file given
};

struct ImageRecord {
  std::string bytes;                    // a serialized Datum
  std::string size;                     // of the image, as stored: "3 x 256 x 256"
  int file_height = 0, file_width = 0;  // of the image in its file
};

// Used by one thread at a time.
class ImageRecordMaker {
 public:
  explicit ImageRecordMaker(const ImageRecordOptions& options);

  // A file that is to be stored encoded, in the format that it has and with its own size, is stored
  // unchanged; then its number of channels is its own, too, as in Caffe. A resized file of a format
  // that is not in ImageFormat becomes a PNG unless `options` say otherwise. Throws Error naming
  // `file` if it cannot be read, decoded or encoded.
  ImageRecord Make(const std::string& file, int32_t label);

 private:
  // The height and width that an image gets.
  std::pair<int, int> SizeOf(int height, int width) const;

  const ImageRecordOptions options_;
  ImageDecoder decoder_;
  Resizer resizer_;
  Image resized_;
};

// Thrown by a MakeRecord: ends the conversion even if images that cannot be used are skipped.
class ConversionError : public Error {
 public:
  using Error::Error;
};

// Makes record `index`; called by several threads at a time, each with a maker of its own. Throws
// Error naming the file if it cannot be used.
using MakeRecord = std::function<ImageRecord(size_t index, ImageRecordMaker* maker)>;

// What records are made like. Throws Error naming the flag.
ImageRecordOptions RecordOptions(const ConvertImagesOptions& options);

// The order of `count` records: 0, 1, ..., or shuffled, as `options` say.
std::vector<size_t> RecordOrder(size_t count, const ConvertImagesOptions& options);

// Writes a record for each name to database `output`, with keys "%08d_NAME". `list_file` and
// `root_folder` are named in errors. See ConvertImages.
ConvertImagesResult ConvertRecords(const std::string& root_folder, const std::string& list_file,
                                   const std::string& output, const std::vector<std::string>& names,
                                   const MakeRecord& make, const ConvertImagesOptions& options);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_
