// Layers whose batches are images with label images.
#ifndef MILLRACE_CONTRIB_SEGMENTATION_IMAGE_DATA_LAYERS_H_
#define MILLRACE_CONTRIB_SEGMENTATION_IMAGE_DATA_LAYERS_H_

#include <memory>

#include "nn/layers/data/batch_data_layer.h"

namespace millrace::inline contrib {

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

// Batches of images with labels for each pixel, for segmentation, as in DeepLab's fork
// (data/images/image_seg_transform.h).
//
//   top[0]  N x C x H x W images, with mean_value and scale of transform_param
//   top[1]  N x 1 x H x W labels
//   top[2]  N x 1 x 1 x 2 (optional): height and width of each image, at most H and W
//
// image_data_param.label_type says what the lines of the list hold:
//   PIXEL (default)  IMAGE LABEL_IMAGE   the grey values of the label image
//   IMAGE            IMAGE LABEL         the label, 0 to 255, at each pixel
//   NONE             IMAGE               ignore_label at each pixel
// C is 3 (blue, green, red), or 1 without is_color. H and W are those of the crop (crop_size, or
// crop_h and crop_w, of transform_param), or new_height and new_width, or the size of the first
// image; with batch_size 1 and neither, each image's own. An image that is smaller than the crop is
// padded with the mean, its labels with ignore_label. The crop is random in training and central in
// tests. Different from the fork, labels are resized to their nearest pixels.
class ImageSegDataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 2, 3}; }
  std::set<std::string> fields() const override {
    return {"image_data_param", "transform_param", "data_param"};
  }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_SEGMENTATION_IMAGE_DATA_LAYERS_H_
