// Mean-variance normalisation of each channel of each image, or with across_channels of each image:
//   top = (bottom - mean) / (sqrt(variance) + eps)
// with the variance sum((bottom - mean)^2) / values. With normalize_variance: false it only
// subtracts the mean. The gradient takes eps for 0, as Caffe's does.
//
// As in Caffe the bottom has at most 4 axes and the top always 4: missing ones are of size 1.
// Accepts any memory order and may work in place.
#ifndef MILLRACE_NN_LAYERS_MVN_LAYER_H_
#define MILLRACE_NN_LAYERS_MVN_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class MvnLayer : public Layer {
 public:
  MvnLayer(const caffe::LayerParameter& param, const LayerContext& context);

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"mvn_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  ChannelView view_;  // the channels of an image are channels of this view
  KeptBottom kept_;
  Blob mean_, inverse_, diff_mean_, product_mean_;  // of each channel of the view
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MVN_LAYER_H_
