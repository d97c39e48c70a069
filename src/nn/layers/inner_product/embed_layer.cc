// A row of a learnable table for every index in the bottom:
//   top[i_0, .., o] = weight[bottom[i_0, ..], o] + bias[o]
// The top has the bottom's axes and one of size num_output behind them. The parameters are weight
// {input_dim, num_output} and, unless bias_term is false, bias {num_output}. Indices are whole
// numbers from 0 to input_dim - 1; another one is an error. No gradient flows to the bottom.
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/row_gather.h"

namespace millrace::inline nn {
namespace {

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

constexpr int64_t kMaxIndices = 1 << 24;  // that a float represents exactly

void EmbedLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::EmbedParameter& param = param_.embed_param();
  width_ = param.num_output();
  if (width_ < 1) throw FieldError("embed_param.num_output", "0 given, expected at least 1");
  if (param.input_dim() < 1 || param.input_dim() > kMaxIndices) {
    throw FieldError("embed_param.input_dim", param.input_dim(), " given, expected 1 to ",
                     kMaxIndices);
  }
  CheckedProduct(param.input_dim(), width_, "embed_param.num_output");
  const Shape weights = {param.input_dim(), width_};
  CheckFiller(param.weight_filler(), weights, "embed_param.weight_filler");
  AddParam(weights, param.weight_filler());
  if (!param.bias_term()) return;
  CheckFiller(param.bias_filler(), {width_}, "embed_param.bias_filler");
  AddParam({width_}, param.bias_filler());
}

void EmbedLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  Shape shape = bottom[0]->shape();
  shape.push_back(width_);
  top[0]->Reshape(shape);
  ChannelSumsMemory(context_);
  gather_.Reserve(*context_.queue, param_.embed_param().input_dim(), width_, bottom[0]->count());
}

void EmbedLayer::Forward(const Blobs& bottom, const Blobs& top) {
  gather_.Forward(bottom[0]->data(), params_[0].blob->data(),
                  has_bias() ? params_[1].blob->data() : nullptr, top[0]->data());
}

void EmbedLayer::Backward(const Blobs& top, const std::vector<bool>&, const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const top_diff = top[0]->diff();
  if (Param& weight = params_[0]; weight.wanted) {
    float* const diff = weight.blob->diff();
    if (!*weight.has_gradient) queue.Fill(diff, 0, weight.blob->count() * sizeof(float));
    gather_.AddBackward(bottom[0]->data(), top_diff, diff);
    *weight.has_gradient = true;
  }
  if (has_bias() && params_[1].wanted) {
    Param& bias = params_[1];
    LaunchSums(context_, ChannelView::Plain(bottom[0]->count(), width_, 1),
               BiasGradient{top_diff, {bias.blob->diff(), *bias.has_gradient}});
    *bias.has_gradient = true;
  }
}

const RegisterLayer<EmbedLayer> embed_layer("Embed");

}  // namespace
}  // namespace millrace::inline nn
