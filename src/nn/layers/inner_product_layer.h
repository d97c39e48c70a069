// A fully connected layer: top = bottom W^T + bias.
//
// The axes of the bottom before `axis` form M rows, the axes from `axis` on form K columns. The top
// has the axes of the rows, then num_output. W is {num_output, K}, or {K, num_output} with
// `transpose`. The bias is {num_output}, absent if bias_term is false. With `normalize`, a field of
// happynear/caffe-windows, the rows of W are scaled to the length 1 (unit_rows.h).
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_

#include <optional>

#include "millrace/layer.h"
#include "nn/layers/backward_reads.h"
#include "nn/layers/unit_rows.h"

namespace millrace::inline nn {

class InnerProductLayer : public Layer, public BackwardReads {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"inner_product_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override {
    return ValuesRead::kBottoms;
  }

 protected:
  Shape TopShape(const Shape& bottom) const;
  int64_t rows(const Blob& bottom) const { return bottom.count(0, axis_); }
  bool transpose() const { return param_.inner_product_param().transpose(); }
  // The weights that the products are computed with, and the place of their gradient.
  const Param& weights() const { return unit_ ? unit_->unit() : params_[0]; }
  // Call before a forward pass reads weights().
  void PrepareWeights();
  // Call when the gradient of weights() has been enqueued, if params_[0] is wanted.
  void FinishWeightGradient();

  int axis_ = 1;
  int64_t inputs_ = 0, outputs_ = 0;  // K, num_output
  bool bias_ = true;

 private:
  std::optional<UnitRows> unit_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_
