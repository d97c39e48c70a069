// ROIPooling of Fast R-CNN (Girshick 2015), as in rbgirshick/caffe-fast-rcnn: the largest values of
// pooled_h x pooled_w bins of each region of interest.
//
// Bottoms: values {N, C, H, W}, and R regions (roi_list.h) whose corners are pixels of the image,
// inclusive. Top: {R, C, pooled_h, pooled_w}. With s = spatial_scale and corners rounded half away
// from zero, a region covers columns round(s x1) .. round(s x2), at least one. With w columns, bin
// i covers the columns
//   round(s x1) + floor(i w / pooled_w) .. round(s x1) + ceil((i + 1) w / pooled_w) - 1
// that are within the bottom, and rows likewise; a bin without any gives 0.
//   dE/dbottom = the sum of dE/dtop over the bins whose (first) largest value it was
// No gradient flows to the regions. Different from there, it runs on CPUs, too, and a region whose
// end lies before its begin, which counts as one pixel, has a gradient.
#ifndef MILLRACE_NN_LAYERS_ROI_POOLING_LAYER_H_
#define MILLRACE_NN_LAYERS_ROI_POOLING_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/roi_kernels.h"
#include "nn/layers/roi_list.h"

namespace millrace::inline nn {

class RoiPoolingLayer : public Layer {
 public:
  RoiPoolingLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), list_(memory()) {}

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"roi_pooling_param"}; }
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
  Buffer place_;  // int32_t for each value of the top: its place in the bottom's plane
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ROI_POOLING_LAYER_H_
