#include "nn/layers/activation/relu_layer.h"

#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/activation/relu_kernels.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

class ReluCpu : public ReluLayer {
 public:
  using ReluLayer::ReluLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ReluLayer::Reshape(bottom, top);
    if (bottom[0]->count() == described_count_) return;
    described_count_ = bottom[0]->count();
    // Elementwise: the memory order does not matter, so one axis suffices.
    const onednn::Desc data = onednn::DescOf({described_count_});
    const onednn::PrimitiveDescs descs = onednn::Descs();
    const auto forward_pd = descs.ReluForward(data, slope());
    forward_ = onednn::MakeOp<dnnl::eltwise_forward>(
        forward_pd, {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}}, context_.scratch);
    const auto backward_pd = descs.ReluBackward(forward_pd, data, slope());
    backward_ = onednn::MakeOp<dnnl::eltwise_backward>(
        backward_pd, {{DNNL_ARG_SRC, data}, {DNNL_ARG_DIFF_DST, data}, {DNNL_ARG_DIFF_SRC, data}},
        context_.scratch);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (fused_) return;
    kept_.Keep(*bottom[0], *context_.queue);
    forward_.Run({{DNNL_ARG_SRC, bottom[0]->data()}, {DNNL_ARG_DST, top[0]->data()}});
  }

  // In place, the bottom already holds the output, which has the sign of the input unless the slope
  // is negative.
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0] || fused_) return;
    backward_.Run({{DNNL_ARG_SRC, kept_.Values(*bottom[0])},
                   {DNNL_ARG_DIFF_DST, top[0]->diff()},
                   {DNNL_ARG_DIFF_SRC, bottom[0]->diff()}});
  }

 private:
  int64_t described_count_ = -1;
  onednn::Op forward_, backward_;
};

const RegisterLayer<ReluCpu> relu_cpu("ReLU", DeviceType::kCpu);

class ReluGpu : public ReluLayer {
 public:
  using ReluLayer::ReluLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (fused_) return;
    kept_.Keep(*bottom[0], *context_.queue);
    Launch(*context_.queue, bottom[0]->count(),
           ReluForward{slope(), bottom[0]->data(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0] || fused_) return;
    Launch(*context_.queue, bottom[0]->count(),
           ReluBackward{slope(), kept_.Values(*bottom[0]), top[0]->diff(), bottom[0]->diff()});
  }
};

const RegisterGpuLayer<ReluGpu> relu_gpu("ReLU");

}  // namespace
}  // namespace millrace::inline nn
