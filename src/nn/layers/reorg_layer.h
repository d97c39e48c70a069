// Moves blocks of pixels to channels, or back, as the passthrough layer of YOLOv2 (Redmon, Farhadi
// 2017) and its forks of Caffe do.
//
// The bottom is {N, C, H, W}, with s = reorg_param.stride and C a multiple of s^2. Both directions
// use one numbering. Channel k = q C/s^2 + c, row j and column i of {N, C, H, W} belong to
//   channel c, row j s + q / s, column i s + q % s   of {N, C/s^2, H s, W s}
// reverse: true    top {N, C/s^2, H s, W s}, which takes its values from there.
// reverse: false   top {N, C s^2, H/s, W/s}; H and W are multiples of s. As in YOLOv2, whose
// weights
//   need it, the numbering is that of the bottom's sizes, not of the top's: the values of the
//   bottom are read as if they were {N, C/s^2, H s, W s}, and those of the top written as {N, C, H,
//   W}.
#ifndef MILLRACE_NN_LAYERS_REORG_LAYER_H_
#define MILLRACE_NN_LAYERS_REORG_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class ReorgLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"reorg_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  StridedCopy copy_;  // from the bottom to the top
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_REORG_LAYER_H_
