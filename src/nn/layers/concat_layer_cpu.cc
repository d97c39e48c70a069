#include "nn/layers/concat_layer.h"
#include "nn/onednn/parts.h"

namespace millrace::inline nn {
namespace {

class ConcatCpu : public ConcatLayer {
 public:
  using ConcatLayer::ConcatLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ConcatLayer::Reshape(bottom, top);
    parts_ = onednn::Parts(*top[0], bottom, axis_, context_.scratch);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      parts_.Insert(i, bottom[i]->data(), top[0]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) parts_.Extract(i, top[0]->diff(), bottom[i]->diff());
    }
  }

 private:
  onednn::Parts parts_;
};

const RegisterLayer<ConcatCpu> registered("Concat", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
