// Layers whose passes do the work of the layers behind them, too.
#ifndef MILLRACE_NN_LAYERS_TAKES_IN_H_
#define MILLRACE_NN_LAYERS_TAKES_IN_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

// Mix-in for layers that compute the layers behind them in their own passes.
class TakesIn {
 public:
  virtual ~TakesIn() = default;
  // Offers `next`, which works in place on the layer's only top right behind it and behind all that
  // were taken in before. True: from now on this layer's forward pass leaves in the top what `next`
  // would, and the passes of `next` do only what is left for them. Call after both have been set
  // up and between iterations.
  virtual bool TakeIn(Layer* next) = 0;
  // All layers work on their own again.
  virtual void ReleaseAll() = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_TAKES_IN_H_
