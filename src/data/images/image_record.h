// One image file to one Datum, as convert_imageset stores it.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_RECORD_H_
#define MILLRACE_DATA_IMAGES_IMAGE_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "data/images/image_decoder.h"
#include "data/images/image_encoder.h"
#include "data/images/resize.h"

namespace millrace::inline data {

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

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_RECORD_H_
