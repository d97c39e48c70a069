// Divides a blob along one axis; the tops receive the parts in order:
//   top[k][.., j, ..] = bottom[.., begin_k + j, ..]
// begin_0 is 0, and the other begins are the slice points, which increase. Without slice points all
// parts have the same size. `axis` may be negative; `slice_dim` is its old name. The bottom may
// have any memory order.
#ifndef MILLRACE_NN_LAYERS_SLICE_LAYER_H_
#define MILLRACE_NN_LAYERS_SLICE_LAYER_H_

#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {

class SliceLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"slice_param"}; }
  // The bottom's own memory order if it fits all tops, otherwise plain order.
  Layout BottomLayout(int, const Blob& bottom) const override;

  // Sets axis_ and the shapes of the tops, which have the bottom's memory order.
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  int axis_ = 0;

 private:
  int AxisIn(const Blob& bottom) const;
  // The sizes of the tops along the axis, whose size is `size`.
  std::vector<int64_t> Sizes(int64_t size, int64_t tops) const;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SLICE_LAYER_H_
