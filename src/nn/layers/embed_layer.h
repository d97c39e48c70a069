// A row of a learnable table for every index in the bottom:
//   top[i_0, .., o] = weight[bottom[i_0, ..], o] + bias[o]
// The top has the bottom's axes and one of size num_output behind them. The parameters are weight
// {input_dim, num_output} and, unless bias_term is false, bias {num_output}. Indices are whole
// numbers from 0 to input_dim - 1; another one is an error. No gradient flows to the bottom.
#ifndef MILLRACE_NN_LAYERS_EMBED_LAYER_H_
#define MILLRACE_NN_LAYERS_EMBED_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/row_gather.h"

namespace millrace::inline nn {

class EmbedLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"embed_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override { gather_.Check(name(), *bottom[0]); }

 private:
  bool has_bias() const { return params_.size() > 1; }

  int64_t width_ = 1;  // num_output
  RowGather gather_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_EMBED_LAYER_H_
