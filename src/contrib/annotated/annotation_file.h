#ifndef MILLRACE_CONTRIB_ANNOTATED_ANNOTATION_FILE_H_
#define MILLRACE_CONTRIB_ANNOTATED_ANNOTATION_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "contrib/annotated/object.h"

namespace millrace::inline contrib {

// Label maps of SSD: text files of a caffe.LabelMap, which give the classes of a data set numbers.

// The number of each class, by its name.
using LabelMap = std::map<std::string, int32_t>;

// Throws Error naming `file` if the text is no label map, if it is empty, or if it gives a name
// twice. `unique`: also if it gives a number twice.
LabelMap ParseLabelMap(const std::string& text, const std::string& file, bool unique);

// Files with the objects of one image, in the formats that SSD's convert_annoset reads:
//
//   xml   PASCAL VOC and ILSVRC: annotation/size, annotation/object with name, difficult, bndbox
//   json  one image of MS COCO: {"image": {"height", "width"}, "annotation": [{"category_id",
//         "bbox": [x, y, width, height], "iscrowd"}, ...]}; the category's number is its name in
//         the label map, and iscrowd stands for difficult
//   txt   lines "label xmin ymin xmax ymax"
//
// Coordinates are pixels. All functions are thread-safe. They throw Error naming `file` if the text
// is malformed, or if an object lacks its class or its box, and UnknownClass if the label map lacks
// its class.
class UnknownClass : public Error {
 public:
  using Error::Error;
};

enum class AnnotationFormat { kXml, kJson, kText };

// xml, json or txt. Throws Error.
AnnotationFormat ParseAnnotationFormat(const std::string& name);

// An object as its file gives it.
struct NamedObject {
  std::string name;  // of its class; of a text file: ""
  int32_t label = 0;
  float xmin = 0, ymin = 0, xmax = 0, ymax = 0;  // pixels
  bool difficult = false;
};

struct ParsedAnnotation {
  int height = 0, width = 0;  // of the image; 0: the file does not say
  std::vector<NamedObject> objects;
};

// For each format; without labels.
ParsedAnnotation ParseVoc(std::string_view text, const std::string& file);
ParsedAnnotation ParseCoco(std::string_view text, const std::string& file);
ParsedAnnotation ParseBoxLines(std::string_view text, const std::string& file);

struct Annotations {
  // With boxes in shares of the image, as stored: not clipped. Objects of a class have the
  // instances 0, 1, ... in their order in the file.
  std::vector<Object> objects;
  std::vector<std::string> oddities;  // that do not prevent the use of the file; a line for each
};

// The objects of an image of height x width pixels; the file's own size counts, if it has one.
Annotations ReadAnnotations(std::string_view text, const std::string& file, AnnotationFormat format,
                            const LabelMap& labels, int height, int width);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_ANNOTATION_FILE_H_
