// Batches of images and labels from the image files of a list (data/images/image_list.h).
//
//   top[0]  N x C x H x W images, transformed according to transform_param
//   top[1]  N labels (optional)
//
// C is 3 (blue, green, red), or 1 without is_color. Images are resized to new_height x new_width
// (data/images/resize.h); without these they have the size of the first one, unless a crop makes
// images of other sizes alike, or batch_size is 1 (nn/layers/data_layer.h). (Caffe changes the
// shape of its tops with larger batches, too.)
#ifndef MILLRACE_NN_LAYERS_IMAGE_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_IMAGE_DATA_LAYER_H_

#include <memory>

#include "nn/layers/batch_data_layer.h"

namespace millrace::inline nn {

class ImageDataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 1, 2}; }
  std::set<std::string> fields() const override {
    return {"image_data_param", "transform_param", "data_param"};
  }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_IMAGE_DATA_LAYER_H_
