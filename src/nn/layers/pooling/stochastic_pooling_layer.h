// Stochastic pooling (Zeiler, Fergus 2013): the type Pooling with pool: STOCHASTIC, for values that
// are not negative. With the values v of a window and their sum s,
//   training: top = one of the values, drawn with the probability v / s; its gradient goes to it.
//   testing:  top = sum of v^2 / s, or 0 unless s > 0
// Draws are a function of (seed, layer, pass). Windows are those of pooling_layer.h, without
// padding.
#ifndef MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_LAYER_H_
#define MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_LAYER_H_

#include <memory>

#include "nn/layers/layer_interfaces.h"
#include "nn/layers/pooling/pooling_layer.h"
#include "nn/layers/random_key.h"

namespace millrace::inline nn {

class StochasticPoolingLayer : public PoolingLayer, public PreparesPass {
 public:
  using PoolingLayer::PoolingLayer;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void PreparePass() override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  PoolingShape shape_{};
  RandomKey key_;
  Buffer chosen_;  // int32_t, for each value of the top: index in its plane of the bottom
};

// Registers the type Pooling for a device: MaxOrAverage for the methods MAX and AVE.
template <typename MaxOrAverage>
void RegisterPooling(DeviceType device) {
  LayerRegistry::Get().Register(
      "Pooling", device,
      [](const caffe::LayerParameter& param,
         const LayerContext& context) -> std::unique_ptr<Layer> {
        if (param.pooling_param().pool() == caffe::PoolingParameter::STOCHASTIC) {
          return std::make_unique<StochasticPoolingLayer>(param, context);
        }
        return std::make_unique<MaxOrAverage>(param, context);
      });
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_LAYER_H_
