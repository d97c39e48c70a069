// Batches of windows of images, half of which may be mirrored, for R-CNN
// (data/window/window_transform.h).
//
//   top[0]  N x 3 x crop_size x crop_size values
//   top[1]  N classes; 0 is background
//
// The first N - floor(N fg_fraction) windows of a batch are drawn from the background, the others
// from the objects, at random with replacement.
#ifndef MILLRACE_NN_LAYERS_WINDOW_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_WINDOW_DATA_LAYER_H_

#include <memory>

#include "nn/layers/batch_data_layer.h"

namespace millrace::inline nn {

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

#endif  // MILLRACE_NN_LAYERS_WINDOW_DATA_LAYER_H_
