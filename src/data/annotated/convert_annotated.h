// Converts images and files of annotations to a database of AnnotatedDatums, as SSD's
// convert_annoset does.
#ifndef MILLRACE_DATA_ANNOTATED_CONVERT_ANNOTATED_H_
#define MILLRACE_DATA_ANNOTATED_CONVERT_ANNOTATED_H_

#include <string>

#include "data/images/convert_images.h"
#include "millrace/export.h"

namespace millrace::inline data {

struct ConvertAnnotatedOptions {
  ConvertImagesOptions images;
  bool detection = false;          // boxes; false: one label per image, without a type
  std::string label_type = "xml";  // of the files with boxes (annotation_file.h)
  std::string label_map_file;      // for boxes
  bool check_label = false;        // the label map gives no number twice
};

// Reads `list_file`: for detection, lines "IMAGE ANNOTATION_FILE", whose names follow `root_folder`
// as they are; otherwise lines "IMAGE LABEL". Makes database `output` as ConvertImages does. An
// image whose annotation file does not exist has no boxes, which is logged, as are boxes that leave
// the image; they are stored as they are. An annotation file that cannot be read counts as an image
// that cannot be used. A class that is not in the label map is an error.
MILLRACE_API ConvertImagesResult ConvertAnnotated(const std::string& root_folder,
                                                  const std::string& list_file,
                                                  const std::string& output,
                                                  const ConvertAnnotatedOptions& options);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_ANNOTATED_CONVERT_ANNOTATED_H_
