// Divides by the L2 norm and multiplies by a learned scale (ParseNet, Liu and others 2015; a layer
// of the SSD fork of Caffe). With x the bottom {N, C, ..} and the norm n over the channels of each
// position, or with across_spatial over all values of each image,
//   n = sqrt(sum of x^2 + eps)      top = scale * x / n
//   dE/dx = (g - x * sum of (g * x) / n^2) / n      with g = scale * dE/dtop
//   dE/dscale = sum of dE/dtop * x / n
// The scale is one number with channel_shared (shape: no axes), else one per channel {C}. SSD
// leaves the scales out of the inner sum, which is the same where they are equal.
#ifndef MILLRACE_NN_LAYERS_NORMALIZE_LAYER_H_
#define MILLRACE_NN_LAYERS_NORMALIZE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/l2_norm_kernels.h"

namespace millrace::inline nn {

class NormalizeLayer : public Layer {
 public:
  NormalizeLayer(const caffe::LayerParameter& param, const LayerContext& context);

  std::set<std::string> fields() const override { return {"norm_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool by_image() const { return param_.norm_param().across_spatial(); }
  bool shared() const { return param_.norm_param().channel_shared(); }
  L2NormView View() const;
  void ScaleBackward(const Blobs& top, const Blobs& bottom);

  int64_t images_ = 0, channels_ = 0, area_ = 0;
  Blob inverse_, product_;  // by position of an image, or by image
  Blob of_channels_;        // derivatives by the scale, if it is shared
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORMALIZE_LAYER_H_
