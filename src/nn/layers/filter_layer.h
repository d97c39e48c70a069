// Passes on the items of the batch that a selector names. The last bottom is the selector {N, 1,
// ..}: with i_0 < i_1 < .. the positions of its values that are not 0,
//   top[k][j] = bottom[k][i_j]
//   dE/dbottom[k][i_j] = dE/dtop[k][j], and 0 for the other items
// No gradient flows to the selector. The number of items in the tops is another one in every pass.
#ifndef MILLRACE_NN_LAYERS_FILTER_LAYER_H_
#define MILLRACE_NN_LAYERS_FILTER_LAYER_H_

#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {

class FilterLayer : public Layer {
 public:
  using Layer::Layer;

  // One top per bottom but the last.
  Arity arity() const override {
    const int most = std::numeric_limits<int>::max();
    return {2, most, 1, most};
  }
  bool AllowBackward(int bottom) const override { return bottom + 1 < param_.bottom_size(); }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the tops for a whole batch, the most that there may be; later ones read
  // the selector.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // Selected items that follow each other.
  struct Run {
    int64_t begin, count;
  };

  bool shaped_ = false;
  std::vector<Run> runs_;  // ascending
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_FILTER_LAYER_H_
