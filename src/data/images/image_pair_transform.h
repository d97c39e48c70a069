// Pairs of images (image_pairs.h) to values: both are decoded, resized, mirrored and cropped
// alike; mean and scale apply to the image, and the label image keeps its values.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIR_TRANSFORM_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIR_TRANSFORM_H_

#include <memory>
#include <string>
#include <vector>

#include "data/images/image_decoder.h"
#include "data/images/image_pairs.h"
#include "data/record_transform.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Tops: C x H x W values, and 1 x H x W labels, or 1 x H/f x W/f with f = label_divide_factor. In
// batches of one pair without a new size and a crop, each has a size of its own.
class ImagePairTransform : public RecordTransform {
 public:
  // `layer` is a DenseImageData layer, `first` a record of the source at `path`, which decides the
  // size of the tops. Throws FieldError.
  ImagePairTransform(const caffe::LayerParameter& layer, caffe::Phase phase, uint64_t seed,
                     uint64_t stream, const std::string& path, const RecordView& first);

  const std::vector<Shape>& shapes() const override { return shapes_; }
  bool varies() const override { return varies_; }
  void Read(const std::string& source, const RecordView& record, uint64_t item) override;
  void Apply(const std::string& source, const RecordView& record, uint64_t item,
             float* const* tops) override;

 private:
  // Where the values of both images come from.
  struct Choice {
    int x = 0, y = 0;  // corner of the crop
    bool mirror = false;
  };

  void TakeShapes(int channels, int height, int width);
  Choice Choose(uint64_t item) const;
  // The part of `image` that `choice` names, into cut_.
  void Cut(const Image& image, const Choice& choice);

  const caffe::DenseImageDataParameter param_;
  const uint64_t seed_, stream_;
  const bool varies_;
  ImagePairReader reader_;
  Image cut_;
  std::unique_ptr<Transformer> transformer_;
  std::vector<Shape> shapes_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIR_TRANSFORM_H_
