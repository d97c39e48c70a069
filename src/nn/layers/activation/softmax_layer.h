// Softmax along one axis. The axes before it are the outer ones, those after it the inner ones. For
// every outer i, inner j and class c
//   y[i][c][j] = exp(x[i][c][j]) / sum over k of exp(x[i][k][j])
//   dE/dx[i][c][j] = y[i][c][j] (dE/dy[i][c][j] - sum over k of dE/dy[i][k][j] y[i][k][j])
// The largest x is subtracted first, which only prevents overflow. The layer may work in place.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_LAYER_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

// A blob viewed along one of its axes.
struct AxisView {
  AxisView() = default;
  // `axis` may be negative. Throws FieldError(`field`, ...) if the axis does not exist.
  AxisView(const Blob& blob, int axis, const char* field);

  int64_t outer = 0, classes = 0, inner = 0;
};

// Softmax of plain arrays in host memory. `out` may equal `in`.
void SoftmaxCpu(const AxisView& view, const float* in, float* out);

class SoftmaxLayer : public Layer {
 public:
  using Layer::Layer;

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"softmax_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  AxisView view_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_LAYER_H_
