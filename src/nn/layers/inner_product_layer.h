// A fully connected layer: top = bottom W^T + bias.
//
// The axes of the bottom before `axis` form M rows, the axes from `axis` on form K columns. The top
// has the axes of the rows, then num_output. W is {num_output, K}, or {K, num_output} with
// `transpose`. The bias is {num_output}, absent if bias_term is false.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/backward_reads.h"

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

  int axis_ = 1;
  int64_t inputs_ = 0, outputs_ = 0;  // K, num_output
  bool bias_ = true;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_LAYER_H_
