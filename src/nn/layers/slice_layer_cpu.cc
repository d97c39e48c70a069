#include "nn/layers/slice_layer.h"
#include "nn/onednn/parts.h"

namespace millrace::inline nn {
namespace {

class SliceCpu : public SliceLayer {
 public:
  using SliceLayer::SliceLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SliceLayer::Reshape(bottom, top);
    parts_ = onednn::Parts(*bottom[0], top, axis_, context_.scratch);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      parts_.Extract(i, bottom[0]->data(), top[i]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    for (size_t i = 0; i < top.size(); ++i) {
      parts_.Insert(i, top[i]->diff(), bottom[0]->diff());
    }
  }

 private:
  onednn::Parts parts_;
};

const RegisterLayer<SliceCpu> registered("Slice", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
