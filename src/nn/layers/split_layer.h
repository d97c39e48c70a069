// Distributes one blob to several consumers. The net inserts it where a blob is consumed more than
// once:
//   top[i] = bottom                        (shared memory, no copy)
//   dE/dbottom = sum over i of dE/dtop[i]
// Accepts any memory order.
#ifndef MILLRACE_NN_LAYERS_SPLIT_LAYER_H_
#define MILLRACE_NN_LAYERS_SPLIT_LAYER_H_

#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {

class SplitLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, std::numeric_limits<int>::max()}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  bool SharesData() const override { return true; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SPLIT_LAYER_H_
