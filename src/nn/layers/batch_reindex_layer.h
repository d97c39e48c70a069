// Selects items of the batch, in any order and any number of times:
//   top[i] = bottom[0][bottom[1][i]]
//   dE/dbottom[0][n] = sum over i with bottom[1][i] = n of dE/dtop[i]
// The second bottom has one axis. Its values are whole numbers from 0 to the size of the first
// bottom's batch - 1; another one is an error. No gradient flows to it.
#ifndef MILLRACE_NN_LAYERS_BATCH_REINDEX_LAYER_H_
#define MILLRACE_NN_LAYERS_BATCH_REINDEX_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/row_gather.h"

namespace millrace::inline nn {

class BatchReindexLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override { gather_.Check(name(), *bottom[1]); }

 private:
  RowGather gather_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BATCH_REINDEX_LAYER_H_
