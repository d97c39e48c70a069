// Layer fusion: the passes of one layer do the work of the layers behind it, too.
#ifndef MILLRACE_NN_LAYERS_LAYER_FUSION_H_
#define MILLRACE_NN_LAYERS_LAYER_FUSION_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

// Mix-in for layers that compute the layers behind them in their own passes.
class FusesNext {
 public:
  virtual ~FusesNext() = default;
  // Offers `next`, which works in place on the layer's only top right behind it and behind all that
  // it is fused with already. True: from now on this layer's forward pass leaves in the top what
  // `next` would, and the passes of `next` do only the rest. Call after both have been set up and
  // between iterations.
  virtual bool TryFuse(Layer* next) = 0;
  // All layers work on their own again.
  virtual void UnfuseAll() = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LAYER_FUSION_H_
