// Mirrors the images of blobs (N, C, H, W), as in happynear/caffe-windows:
//   top[n, c, h, w] = bottom[n, c, h', w']
//   h' = H - 1 - h if flip_param.flip_height (default: false), else h
//   w' = W - 1 - w if flip_param.flip_width (default: true), else w
// As in Caffe, axes that a blob lacks have the size 1.
#ifndef MILLRACE_NN_LAYERS_FLIP_LAYER_H_
#define MILLRACE_NN_LAYERS_FLIP_LAYER_H_

#include "nn/layers/reverse_layer.h"

namespace millrace::inline nn {

class FlipLayer : public ReverseLayer {
 public:
  using ReverseLayer::ReverseLayer;

  std::set<std::string> fields() const override { return {"flip_param"}; }

 protected:
  std::vector<bool> ReversedAxes(const Blob& bottom) const override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_FLIP_LAYER_H_
