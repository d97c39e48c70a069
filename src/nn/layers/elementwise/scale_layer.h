// Scale: top = bottom[0] * scale + bias. The scale matches num_axes axes of bottom[0] from `axis`
// on and is repeated along the others. It is learned, or it is bottom[1]. The bias (bias_term) has
// the shape of the scale and is learned.
//   one bottom:    blob 0 = scale, blob 1 = bias if any
//   two bottoms:   blob 0 = bias if any
// Gradients, with sums over the values that a number belongs to:
//   d scale = sum(d top * bottom)    d bias = sum(d top)    d bottom = d top * scale
// May work in place. One number per channel takes any memory order, other shapes the plain one.
#ifndef MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_LAYER_H_
#define MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_LAYER_H_

#include "nn/layers/channel_axes.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/layer_interfaces.h"

namespace millrace::inline nn {

class BatchNormLayer;

class ScaleLayer : public Layer, public BackwardReads {
 public:
  ScaleLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {.min_bottom = 1, .max_bottom = 2}; }
  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"scale_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

  // ---- For a BatchNorm layer in front that is fused with this one (layer_interfaces.h) ----
  // Whether the scale is learned and has one number for each of these channels of the bottom.
  bool HasNumberPerChannelOf(const ChannelView& channels) const;
  bool WantsScale() const { return params_[0].wanted; }
  const float* scale() const { return params_[0].blob->data(); }
  // Null if the layer has none.
  const float* bias() const { return bias_ >= 0 ? params_[bias_].blob->data() : nullptr; }
  void set_fused_into(BatchNormLayer* norm) { fused_into_ = norm; }
  ValuesRead BackwardValues(const Blobs& bottom, const Blobs& top) const override {
    const bool keeps = bottom[0] == top[0] && bottom.size() == 1;
    return keeps ? ValuesRead::kNone : ValuesRead::kBottoms;
  }

 private:
  const Blob& ScaleOf(const Blobs& bottom) const {
    return bottom.size() > 1 ? *bottom[1] : *params_[0].blob;
  }

  const MatchedAxes axes_;
  int bias_ = -1;  // index among params(); -1: none
  ChannelView view_;
  KeptBottom kept_;
  BatchNormLayer* fused_into_ = nullptr;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_LAYER_H_
