// Images with labels of pixels (image_pairs.h) to values, as DeepLab's fork of Caffe does:
// both are resized, padded below and on the right up to the size of the crop, cropped and then
// mirrored alike. Means and scale apply to the image, and padding is the mean: 0 in the top.
//
// Labels of HED's ImageLabelmapData layers are 1 where the label image has a value of 128 or more,
// and 0 elsewhere; images that are smaller than the crop are errors.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_SEG_TRANSFORM_H_
#define MILLRACE_DATA_IMAGES_IMAGE_SEG_TRANSFORM_H_

#include <memory>
#include <string>
#include <vector>

#include "data/images/image_pairs.h"
#include "data/record_transform.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// What the lines of the list of an ImageSegData or ImageLabelmapData layer hold. Throws FieldError.
PairLabels PairLabelsOf(const caffe::LayerParameter& layer);

// Tops: C x H x W values, 1 x H x W labels, and 1 x 1 x 2: height and width of the image within
// the top, before it was moved by the crop. In batches of one image without a new size and a crop,
// each has a size of its own.
class ImageSegTransform : public RecordTransform {
 public:
  // `layer` is an ImageSegData or ImageLabelmapData layer, `first` a record of the source at
  // `path`, which decides the size of the tops. Throws FieldError.
  ImageSegTransform(const caffe::LayerParameter& layer, caffe::Phase phase, uint64_t seed,
                    uint64_t stream, const std::string& path, const RecordView& first);

  const std::vector<Shape>& shapes() const override { return shapes_; }
  bool varies() const override { return varies_; }
  void Read(const std::string& source, const RecordView& record, uint64_t item) override;
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;

 private:
  // The part of an image that lies in the top, from its corner on.
  struct Part {
    int x = 0, y = 0, height = 0, width = 0;
    bool mirror = false;
  };

  bool crops() const { return crop_height_ > 0; }
  void TakeShapes();
  // Throws Error, without the name of the record, if the image has not the size of the tops.
  void CheckSize() const;
  Part Choose(uint64_t item) const;
  // The part of `image` into cut_.
  void Cut(const Image& image, const Part& part);

  const caffe::ImageDataParameter param_;
  const caffe::Phase phase_;
  const uint64_t seed_, stream_;
  const bool mirror_;
  const bool binary_;                     // labels are 0 and 1, as ImageLabelmapData has them
  int crop_height_ = 0, crop_width_ = 0;  // 0: no crop
  bool varies_ = false;
  ImagePairReader reader_;
  Image cut_;
  std::vector<float> values_;  // scratch
  std::unique_ptr<Transformer> transformer_;
  int height_ = 0, width_ = 0;  // of the tops
  std::vector<Shape> shapes_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_SEG_TRANSFORM_H_
