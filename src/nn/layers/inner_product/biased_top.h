// The last step of layers that add a bias to their tops. It can do the work of a ReLU behind them,
// too, so that values and gradients are read and written once for both.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_BIASED_TOP_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_BIASED_TOP_H_

#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/elementwise/bias_kernels.h"

namespace millrace::inline nn {

class ReluLayer;

class BiasedTop {
 public:
  // As FusesNext (layer_interfaces.h): takes in a ReLU whose slope is at least 0.
  bool TryFuse(Layer* next);
  void Unfuse();

  // Both enqueue work on the layer's queue. `bias`: a number for each channel of the view; null:
  // there is none, or it has been added.
  void Forward(const LayerContext& context, const ChannelView& view, const float* bias,
               float* top) const;
  // With a ReLU, top_diff, the gradient by its top, becomes that by its bottom. Call before the
  // layer's own backward pass.
  void Backward(const LayerContext& context, const ChannelView& view, const float* top,
                float* top_diff, ChannelGradient bias) const;

 private:
  ReluLayer* relu_ = nullptr;  // taken in
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_BIASED_TOP_H_
