#ifndef MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_
#define MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/images/image_decoder.h"
#include "data/images/resize.h"
#include "data/record_transform.h"
#include "data/window/window_file.h"
#include "millrace/data_source.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// The windows of a window file as records: encoded Datums of the images that hold them, with the
// window's class as label and its x1, y1, x2, y2 as float_data.

// Opens the window file of a WindowData layer: the background windows, and those of objects. With
// cache_images, both together keep the bytes of each image that was used. Reads no images. Throws
// FieldError if the file cannot be read, or if one of the two would be empty.
std::pair<std::shared_ptr<DataSource>, std::shared_ptr<DataSource>> OpenWindows(
    const caffe::WindowDataParameter& param);

// Windows of images to the input of a net, as Caffe's WindowData layer does:
//
//   out[c][y][x] = (resized[c][y - pad_y][x - pad_x] - mean) * scale      inside of the window
//   out[c][y][x] = 0                                                      elsewhere
//
// where `resized` is the window, resized (data/window/window_file.h) and mirrored in half of the
// cases if `mirror` is set. `mean` is one number, one per channel, or the part of the mean image
// that is as far from its left and from its top edge as the net's input would be in the centre of
// its width.

// Tops: 3 x crop_size x crop_size values, and the class.
class WindowTransform : public RecordTransform {
 public:
  // Reads the mean file. `seed`, `stream`: key of the random choices. Throws FieldError if the
  // settings do not fit each other.
  WindowTransform(const caffe::LayerParameter& layer, uint64_t seed, uint64_t stream);

  const std::vector<Shape>& shapes() const override { return shapes_; }
  // `record` as of a source from OpenWindows.
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;

 private:
  static constexpr int kChannels = 3;

  void LoadMean(const caffe::TransformationParameter& param);
  void Write(const Image& image, const WindowPlace& place, bool mirror, float* out);

  WindowCrop crop_;
  bool mirror_;
  float scale_;
  const uint64_t seed_, stream_;
  std::vector<float> mean_values_;  // one per channel
  std::vector<float> mean_image_;   // (C, H, W), or empty
  int mean_height_ = 0, mean_width_ = 0;
  std::vector<Shape> shapes_;
  ImageDecoder decoder_;
  Resizer resizer_;
  std::vector<uint8_t> plane_;  // one channel of a resized window
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_
