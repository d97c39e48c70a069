// Parametric ReLU (He, Zhang, Ren, Sun, ICCV 2015): top = bottom where that is positive,
// slope * bottom elsewhere. The slopes are learned: blob 0 has one for each channel (axis 1), or
// with channel_shared a single one. Their default is 0.25.
// May work in place; accepts any memory order.
#ifndef MILLRACE_NN_LAYERS_PRELU_LAYER_H_
#define MILLRACE_NN_LAYERS_PRELU_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class PreluLayer : public Layer {
 public:
  PreluLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"prelu_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  ChannelView view_;  // of one channel if the slope is shared
  KeptBottom kept_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PRELU_LAYER_H_
