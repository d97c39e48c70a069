// Layers whose batches come from databases and image files.
#ifndef MILLRACE_NN_LAYERS_DATA_DATA_LAYERS_H_
#define MILLRACE_NN_LAYERS_DATA_DATA_LAYERS_H_

#include <memory>

#include "data/images/pixel_reader.h"
#include "nn/layers/data/batch_data_layer.h"

namespace millrace::inline nn {

// Batches of images and labels from databases (data/stream_options.h).
//
//   top[0]  N x C x H x W images, transformed according to transform_param
//   top[1]  N labels (optional)
//
// Images have the size of the first record, unless a crop makes records of other sizes alike. With
// batch_size 1, and neither a crop nor a mean image nor a resize_param that makes them alike, each
// batch has the size of its image.
// data_param.force_encoded_color decodes encoded images as transform_param.force_color does.
class DataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 1, 2}; }
  std::set<std::string> fields() const override { return {"data_param", "transform_param"}; }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

// For layers of images: decodes as `reading` says and transforms as the layer's transform_param
// does. Reads the first record of the stream to learn the size of its images. Throws FieldError, of
// `source_field` if that record is unusable.
std::unique_ptr<RecordTransform> MakeImageTransform(const caffe::LayerParameter& layer,
                                                    caffe::Phase phase, const ImageReading& reading,
                                                    const char* source_field,
                                                    const BatchStream& stream);

// Batches of images and labels from the image files of a list (data/images/image_list.h).
//
//   top[0]  N x C x H x W images, transformed according to transform_param
//   top[1]  N labels (optional)
//
// C is 3 (blue, green, red), or 1 without is_color. Images are resized to new_height x new_width
// (data/images/resize.h); without these they have the size of the first one, unless a crop makes
// images of other sizes alike, or batch_size is 1 (nn/layers/data/data_layers.h). (Caffe changes
// the shape of its tops with larger batches, too.)
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

// Batches of windows of images, half of which may be mirrored, for R-CNN
// (data/window/window_source.h).
//
//   top[0]  N x 3 x crop_size x crop_size values
//   top[1]  N classes; 0 is background
//
// The first N - floor(N fg_fraction) windows of a batch are drawn from the background, the others
// from the objects, at random with replacement.
class WindowDataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 2, 2}; }
  std::set<std::string> fields() const override {
    return {"window_data_param", "transform_param", "data_param"};
  }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DATA_DATA_LAYERS_H_
