// Batches of images and labels from databases (data/stream_options.h).
//
//   top[0]  N x C x H x W images, transformed according to transform_param
//   top[1]  N labels (optional)
//
// Images have the size of the first record, unless a crop makes records of other sizes alike. With
// batch_size 1, and neither a crop nor a mean image nor a resize_param that makes them alike, each
// batch has the size of its image.
// data_param.force_encoded_color decodes encoded images as transform_param.force_color does.
#ifndef MILLRACE_NN_LAYERS_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DATA_LAYER_H_

#include <memory>

#include "data/pixel_reader.h"
#include "nn/layers/batch_data_layer.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DATA_LAYER_H_
