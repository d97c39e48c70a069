// Spatial pyramid pooling (He, Zhang, Ren, Sun 2014) of a 4-axis blob. Level l, from 0 to
// pyramid_height - 1, is a Pooling into B x B bins with B = 2^l, whose geometry along an axis of
// size H is
//   kernel = stride = ceil(H / B),   pad = ceil((kernel B - H) / 2)
// The top {N, C sum of bins} has the values of all levels, each level as {C, rows, columns}, one
// behind the other. With one level the top is that of the Pooling, {N, C, 1, 1}.
#ifndef MILLRACE_NN_LAYERS_SPP_LAYER_H_
#define MILLRACE_NN_LAYERS_SPP_LAYER_H_

#include <memory>

#include "millrace/layer.h"
#include "nn/layers/blob_parts.h"

namespace millrace::inline nn {

class SppLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"spp_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  struct Level {
    std::unique_ptr<Layer> pooling;
    std::unique_ptr<Blob> top;       // of the pooling
    std::unique_ptr<BlobPart> part;  // the place of its values in the layer's top
  };

  // Throws FieldError if the bottom is too small for the level.
  caffe::LayerParameter PoolingOf(int level, const Blob& bottom) const;

  std::vector<Level> levels_;
  std::unique_ptr<Blob> bottom_;  // shares the bottom's values; has the gradient of one level
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SPP_LAYER_H_
