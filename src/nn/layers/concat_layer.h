// Joins blobs along one axis, in the order of the bottoms:
//   top[.., offset_k + j, ..] = bottom[k][.., j, ..],   offset_k = sum over i < k of size_i
// where size_i is the size of bottom i along the axis. All other sizes are equal. `axis` may be
// negative; `concat_dim` is its old name. Bottoms may have any memory order.
#ifndef MILLRACE_NN_LAYERS_CONCAT_LAYER_H_
#define MILLRACE_NN_LAYERS_CONCAT_LAYER_H_

#include <limits>

#include "millrace/layer.h"
#include "nn/layers/backward_reads.h"

namespace millrace::inline nn {

class ConcatLayer : public Layer, public BackwardReads {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, std::numeric_limits<int>::max(), 1, 1}; }
  std::set<std::string> fields() const override { return {"concat_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  // Sets axis_ and the shape of the top. The top has the memory order of the bottoms if they agree
  // on one, otherwise plain order.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override { return ValuesRead::kNone; }

 protected:
  int axis_ = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONCAT_LAYER_H_
