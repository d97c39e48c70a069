// Converts a 4-axis blob between memory orders. Nets insert this layer where a layer needs another
// order than its bottom has. The target order is the context's preferred_layout.
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

class ReorderCpu : public Layer {
 public:
  using Layer::Layer;

  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->Reshape(bottom[0]->shape(), context_.preferred_layout);
    const onednn::Desc from = onednn::DescOf(*bottom[0]), to = onednn::DescOf(*top[0]);
    forward_ = onednn::Reorder(from, to, context_.scratch);
    backward_ = onednn::Reorder(to, from, context_.scratch);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    forward_.Run(bottom[0]->data(), top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) backward_.Run(top[0]->diff(), bottom[0]->diff());
  }

 private:
  onednn::Reorder forward_, backward_;
};

const RegisterLayer<ReorderCpu> reorder_layer("Reorder", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
