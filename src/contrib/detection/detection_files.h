// Detections: in pixels of their images, as rows of a blob, and in files of results.
#ifndef MILLRACE_CONTRIB_DETECTION_DETECTION_FILES_H_
#define MILLRACE_CONTRIB_DETECTION_DETECTION_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contrib/detection/boxes.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Boxes in the pixels of the image that they were found in, before it was resized for the net.
struct NamedImage {
  std::string name;
  int height = 0, width = 0;  // pixels
};

// Reads a name_size_file: lines "name height width". Throws FieldError(`field`, ...) with the path
// if there is no such file, if it has no lines, or for a line that is none of these.
std::vector<NamedImage> ReadNamedImages(const std::string& path, const std::string& field);

// Throws FieldError(`field`, ...) for a resize_param that InPixels cannot use.
void CheckResize(const caffe::ResizeParameter& resize, const std::string& field);

// The box, limited to the image. `resize`: how the image was resized; null: each axis by itself.
// With FIT_LARGE_SIZE_AND_PAD, the borders that were added are taken off. With FIT_SMALL_SIZE and
// height_scale and width_scale, shares are of these sizes.
PixelBox InPixels(const Box& box, const NamedImage& image, const caffe::ResizeParameter* resize);

// Objects that a net has found, as rows of a blob {1, 1, rows, 7}:
//   image of the batch, label, score, xmin, ymin, xmax, ymax
struct Detection {
  static constexpr int64_t kColumns = 7;

  int64_t image = 0;
  int label = 0;
  float score = 0;
  Box box;

  // Appends the row.
  void AppendTo(std::vector<float>* values) const;
};

// `value`, truncated to a whole number as in SSD. Throws Error if it is not finite or beyond 1e9; the
// line says "`table` row `row`: `column`".
int64_t WholeNumber(float value, const char* table, int64_t row, const char* column);

// By image and label, in the order of the rows. Rows whose image or label is -1 stand for none.
// Throws Error for a row with the label `background`, and for numbers that are not whole.
using DetectionsOfImages = std::map<int64_t, std::map<int, std::vector<Detection>>>;
DetectionsOfImages ReadDetections(const float* values, int64_t rows, int background);

// Writes the objects found in the images of a data set to files, in the forms that the evaluation
// programs of data sets read (save_output_param of DetectionOutput). In the output directory:
//   VOC     PREFIX<class name>.txt per class, lines "image score xmin ymin xmax ymax"
//   COCO    PREFIX.json, a list of {"image_id", "category_id", "bbox": [x, y, width, height],
//           "score"}; the class names of the label map are the category ids
//   ILSVRC  PREFIX.txt, lines "image label score xmin ymin xmax ymax"
// Coordinates are pixels of the images that name_size_file lists, in the order of the data. After
// num_test_image images (default: all of the list) the files are written, and the list starts
// again.
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

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_DETECTION_FILES_H_
