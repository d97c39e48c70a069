// Writes the objects found in the images of a data set to files, in the forms that the evaluation
// programs of data sets read (save_output_param of DetectionOutput). In the output directory:
//   VOC     PREFIX<class name>.txt per class, lines "image score xmin ymin xmax ymax"
//   COCO    PREFIX.json, a list of {"image_id", "category_id", "bbox": [x, y, width, height],
//           "score"}; the class names of the label map are the category ids
//   ILSVRC  PREFIX.txt, lines "image label score xmin ymin xmax ymax"
// Coordinates are pixels of the images that name_size_file lists, in the order of the data. After
// num_test_image images (default: all of the list) the files are written, and the list starts
// again.
#ifndef MILLRACE_NN_BOXES_DETECTION_FILES_H_
#define MILLRACE_NN_BOXES_DETECTION_FILES_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/boxes/detections.h"
#include "nn/boxes/image_box.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

class DetectionFiles {
 public:
  // Null if `param` does not name an output directory, a label map and a list of images. Creates
  // the directory. Throws FieldError.
  static std::unique_ptr<DetectionFiles> Open(const caffe::DetectionOutputParameter& param);

  // Takes the objects of the next image. Throws Error if files cannot be written.
  void Add(std::span<const Detection> image);

 private:
  struct Row {
    const NamedImage* image;
    int label;
    float score;
    Box pixels;
  };

  explicit DetectionFiles(const caffe::DetectionOutputParameter& param);
  void ReadLabels(const std::string& path);
  void Write() const;
  void WriteLines(const std::string& path, bool with_label, int label) const;
  void WriteCoco(const std::string& path) const;
  std::string PathOf(const std::string& rest) const;

  caffe::SaveOutputParameter param_;
  std::map<int, std::string> names_;  // by label, without the background
  std::vector<NamedImage> images_;
  size_t count_ = 0;  // images per set of files
  size_t next_ = 0;   // image
  std::vector<Row> rows_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_DETECTION_FILES_H_
