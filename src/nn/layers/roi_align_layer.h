// ROIAlign of Mask R-CNN (He, Gkioxari, Dollar, Girshick 2017): means of bilinear samples of
// pooled_h x pooled_w bins of each region of interest.
//
// Bottoms: values {N, C, H, W}, and R regions (roi_list.h). Top: {R, C, pooled_h, pooled_w}. With
// s = spatial_scale, a region covers s x1 .. s x2 without rounding, at least one pixel wide, and
// rows likewise. It is divided into bins of equal width b, and each bin has p x p points, in
// the middle of p equal parts of it, along each axis:
//   p = sampling_ratio of roi_align_param; not positive (default): ceil(b), at most 256
//   p = 2 if roi_pooling_param is given in its place
//   top = the mean over the points of the bilinear interpolation of the 4 pixels around each
// A point at (0, 0) is the centre of the first pixel. A point up to one pixel outside counts as one
// on the edge, and one further outside as 0.
//   dE/dbottom = the sum of dE/dtop * weight over the bins
// No gradient flows to the regions.
//
// These are the samples of the paper's authors and of the forks of Caffe that take the mean. Other
// forks have a layer of the same name with the same fields that takes the largest of the points,
// and are not followed.
#ifndef MILLRACE_NN_LAYERS_ROI_ALIGN_LAYER_H_
#define MILLRACE_NN_LAYERS_ROI_ALIGN_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/roi_kernels.h"
#include "nn/layers/roi_list.h"

namespace millrace::inline nn {

class RoiAlignLayer : public Layer {
 public:
  RoiAlignLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), list_(memory()) {}

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"roi_align_param", "roi_pooling_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override { list_.Check(name(), bottom[0]->dim(0)); }

 private:
  RoiPoolShape shape_{};
  int64_t sampling_ = 0;  // points of a bin along an axis; not positive: by its size
  RoiList list_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ROI_ALIGN_LAYER_H_
