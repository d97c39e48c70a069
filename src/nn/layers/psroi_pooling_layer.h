// PSROIPooling: position-sensitive average pooling of R-FCN (Dai, Li, He, Sun 2016), as in
// daijifeng001/caffe-rfcn. Each bin of a region reads a channel of its own.
//
// Bottoms: values {N, output_dim * k * k, H, W} with k = group_size, and R regions (roi_list.h).
// Top: {R, output_dim, k, k}. With s = spatial_scale and corners rounded half away from zero, a
// region covers s x1 .. s (x2 + 1), at least a tenth of a pixel, and is not rounded to pixels. With
// a width w, bin i covers the columns
//   floor(s x1 + i w / k) .. ceil(s x1 + (i + 1) w / k) - 1
// that are within the bottom, and rows likewise.
//   top[r, c, i, j] = the mean of bin (i, j) of channel (c k + i) k + j, 0 if the bin is empty
//   dE/dbottom = the sum of dE/dtop / area over the bins that it is in
// No gradient flows to the regions.
#ifndef MILLRACE_NN_LAYERS_PSROI_POOLING_LAYER_H_
#define MILLRACE_NN_LAYERS_PSROI_POOLING_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/roi_kernels.h"
#include "nn/layers/roi_list.h"

namespace millrace::inline nn {

class PsRoiPoolingLayer : public Layer {
 public:
  PsRoiPoolingLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), list_(memory()) {}

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"psroi_pooling_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override { list_.Check(name(), bottom[0]->dim(0)); }

 private:
  RoiPoolShape shape_{};
  RoiList list_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PSROI_POOLING_LAYER_H_
