// Consumes blobs, so that they are not outputs of the net:
//   dE/dbottom = 0
// Accepts any memory order.
#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {
namespace {

class SilenceLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, std::numeric_limits<int>::max(), 0, 0}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void Reshape(const Blobs&, const Blobs&) override {}
  void Forward(const Blobs&, const Blobs&) override {}
  void Backward(const Blobs&, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (!propagate_down[i]) continue;
      context_.queue->Fill(bottom[i]->diff(), 0, bottom[i]->count() * sizeof(float));
    }
  }
};

const RegisterLayer<SilenceLayer> silence_layer("Silence");

}  // namespace
}  // namespace millrace::inline nn
