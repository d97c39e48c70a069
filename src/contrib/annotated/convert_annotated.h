// Converts images and files of annotations to a database of AnnotatedDatums, as SSD's
// convert_annoset does.
#ifndef MILLRACE_CONTRIB_ANNOTATED_CONVERT_ANNOTATED_H_
#define MILLRACE_CONTRIB_ANNOTATED_CONVERT_ANNOTATED_H_

#include <string>

#include "data/images/convert_images.h"

namespace millrace::inline contrib {

// Reads `list_file`: for detection, lines "IMAGE ANNOTATION_FILE", whose names follow `root_folder`
// as they are; otherwise lines "IMAGE LABEL". Makes database `output` as ConvertImages does. An
// image whose annotation file does not exist has no boxes, which is logged, as are boxes that leave
// the image; they are stored as they are. An annotation file that cannot be read counts as an image
// that cannot be used. A class that is not in the label map is an error.
ConvertImagesResult ConvertAnnotated(const std::string& root_folder, const std::string& list_file,
                                     const std::string& output,
                                     const ConvertAnnotatedOptions& options);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_CONVERT_ANNOTATED_H_
