// Batches of images and label images, for segmentation, as in the fork of SegNet
// (data/images/image_pair_transform.h).
//
//   top[0]  N x C x H x W images, with mean and scale of transform_param
//   top[1]  N x 1 x H x W labels: the grey values of the label images; N x 1 x H/f x W/f with
//           f = label_divide_factor, which needs new_height and new_width
//
// C is 3 (blue, green, red), or 1 without is_color. Both images of a pair are resized to new_height
// x new_width, the label image to its nearest pixels; mirrored together if `mirror` says so; and
// cropped to crop_height x crop_width at a random place, in tests, too, as in the fork. Without a
// size or a crop, images have the size of the first one, or with batch_size 1 each its own.
#ifndef MILLRACE_NN_LAYERS_DENSE_IMAGE_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DENSE_IMAGE_DATA_LAYER_H_

#include <memory>

#include "nn/layers/batch_data_layer.h"

namespace millrace::inline nn {

class DenseImageDataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 2, 2}; }
  std::set<std::string> fields() const override {
    return {"dense_image_data_param", "transform_param", "data_param"};
  }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DENSE_IMAGE_DATA_LAYER_H_
