// Converts the images of a list to a database of Datums, as Caffe's convert_imageset does.
#ifndef MILLRACE_DATA_IMAGES_CONVERT_IMAGES_H_
#define MILLRACE_DATA_IMAGES_CONVERT_IMAGES_H_

#include <cstdint>
#include <string>

#include "data/database.h"

namespace millrace::inline data {

struct ConvertImagesOptions {
  DatabaseKind kind = DatabaseKind::kLmdb;
  bool gray = false;     // one channel instead of three
  bool shuffle = false;  // a random order, a function of `seed`
  uint64_t seed = 1;
  int resize_height = 0, resize_width = 0;  // 0 and 0: images keep their size
  // Sides in proportion: the shorter one at least min_dim, then the longer one at most max_dim; 0:
  // any. Then resize_height and resize_width do not count.
  int min_dim = 0, max_dim = 0;
  bool check_size = false;  // all images must be of one size
  bool encoded = false;     // store image files instead of pixels
  std::string encode_type;  // their format, "jpg" or "png", implies `encoded`;
                            // "": the format that each file has
  bool strict = false;      // fail at the first unusable image
  int threads = 1;          // that decode
};

struct ConvertImagesResult {
  uint64_t converted = 0;
  uint64_t skipped = 0;  // images that could not be read or decoded
};

// Reads `list_file` (data/images/image_list.h), whose names follow `root_folder` as they are, and
// makes database `output`. Keys are "%08d_NAME", cut to 511 bytes, with the number of the line in
// the order of the database. An image that cannot be read or decoded is logged and skipped, or
// refused if `strict`. Image files are stored unchanged if they are to be encoded in the format
// that they have and not resized. Logs progress every 1000 images. Throws Error in one line, and
// leaves no database, for unusable options or lists, for a size that differs, if no image is
// usable, or if the database cannot be written.
ConvertImagesResult ConvertImages(const std::string& root_folder, const std::string& list_file,
                                  const std::string& output, const ConvertImagesOptions& options);

// ---- Images with boxes ----

struct ConvertAnnotatedOptions {
  ConvertImagesOptions images;
  bool detection = false;          // boxes; false: one label per image, without a type
  std::string label_type = "xml";  // of the files with boxes (contrib/annotated/annotation_file.h)
  std::string label_map_file;      // for boxes
  bool check_label = false;        // the label map gives no number twice
};

// As ConvertAnnotated of contrib/annotated/convert_annotated.h.
using AnnotatedConverter = ConvertImagesResult (*)(const std::string& root_folder,
                                                   const std::string& list_file,
                                                   const std::string& output,
                                                   const ConvertAnnotatedOptions& options);
// Registers the converter; module contrib defines one at namespace scope.
struct RegisterAnnotatedConverter {
  explicit RegisterAnnotatedConverter(AnnotatedConverter converter);
};
// Loads module contrib. Throws Error if there is no converter.
AnnotatedConverter FindAnnotatedConverter();

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_CONVERT_IMAGES_H_
