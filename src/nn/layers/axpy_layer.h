// Scales the channels of a blob and adds another one, as squeeze-and-excitation networks do with
// their shortcut (Hu, Shen, Sun 2017):
//   top[n, c, ..] = a[n, c] x[n, c, ..] + y[n, c, ..]
//   dE/da[n, c] = sum of x[n, c, ..] dE/dtop[n, c, ..]    dE/dx = a dE/dtop    dE/dy = dE/dtop
// The bottoms are a {N, C}, which may have axes of size 1 behind these, x {N, C, ..}, and y with
// the shape of x. A layer of the SENet fork of Caffe.
#ifndef MILLRACE_NN_LAYERS_AXPY_LAYER_H_
#define MILLRACE_NN_LAYERS_AXPY_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class AxpyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 3, 1, 1}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_AXPY_LAYER_H_
