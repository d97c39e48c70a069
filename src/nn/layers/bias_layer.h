// Bias: top = bottom[0] + bias. The bias matches num_axes axes of bottom[0] from `axis` on and is
// repeated along the others. It is learned (blob 0), or it is bottom[1].
//   d bias = sum(d top) over the values that a number belongs to    d bottom = d top
// May work in place. One number per channel takes any memory order, other shapes the plain one.
#ifndef MILLRACE_NN_LAYERS_BIAS_LAYER_H_
#define MILLRACE_NN_LAYERS_BIAS_LAYER_H_

#include "nn/layers/matched_axes.h"

namespace millrace::inline nn {

class BiasLayer : public Layer {
 public:
  BiasLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {.min_bottom = 1, .max_bottom = 2}; }
  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"bias_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  const Blob& BiasOf(const Blobs& bottom) const {
    return bottom.size() > 1 ? *bottom[1] : *params_[0].blob;
  }

  const MatchedAxes axes_;
  ChannelView view_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BIAS_LAYER_H_
