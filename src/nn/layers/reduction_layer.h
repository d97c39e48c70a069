// Reduces the axes from `axis` on, which may be negative, to one value each; the axes before it
// stay. Over the n values x of a row:
//   SUM:   top = coeff sum x         dE/dx = coeff dE/dtop
//   ASUM:  top = coeff sum |x|       dE/dx = coeff sign(x) dE/dtop, 0 where x is 0
//   SUMSQ: top = coeff sum x^2       dE/dx = coeff 2 x dE/dtop
//   MEAN:  top = coeff sum x / n     dE/dx = coeff / n dE/dtop
#ifndef MILLRACE_NN_LAYERS_REDUCTION_LAYER_H_
#define MILLRACE_NN_LAYERS_REDUCTION_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/reduction_kernels.h"

namespace millrace::inline nn {

class ReductionLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"reduction_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t length_ = 1;
  Reduced reduced_ = Reduced::kValues;
  float factor_ = 1;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_REDUCTION_LAYER_H_
