// The indices of the top_k largest values, in descending order of the values. Of equal values the
// one with the larger index is first. Indices are floats.
//
// With `axis`: along this axis, which gets the size top_k. With out_max_val the top has the values
// instead of the indices.
// Without: among all values of an item of the batch. The top is {N, 1, top_k} with axes of size 1
// behind it for a bottom with more than 3 axes; with out_max_val it is {N, 2, top_k, ..}: the
// indices, then the values.
//
// No gradient flows through the layer.
#ifndef MILLRACE_NN_LAYERS_ARGMAX_LAYER_H_
#define MILLRACE_NN_LAYERS_ARGMAX_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class ArgMaxLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"argmax_param"}; }
  bool AllowBackward(int) const override { return false; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  int64_t outer_ = 1, length_ = 1, inner_ = 1;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ARGMAX_LAYER_H_
