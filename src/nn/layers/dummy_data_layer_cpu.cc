#include "base/rng.h"
#include "nn/filler.h"
#include "nn/layers/dummy_data_layer.h"

namespace millrace {
namespace {

class DummyDataLayerCpu : public DummyDataLayer {
 public:
  using DummyDataLayer::DummyDataLayer;

  void Forward(const Blobs&, const Blobs& top) override {
    const uint64_t pass = context_.pass ? *context_.pass : 0;
    Rng rng(context_.seed, {kRngDummyData, context_.layer_id, pass});
    for (size_t i = 0; i < top.size(); ++i) {
      const bool constant = fillers_[i].type() == "constant";
      if (!constant || first_pass_) Fill(fillers_[i], top[i]->shape(), &rng, top[i]->data());
    }
    first_pass_ = false;
  }
};

const RegisterLayer<DummyDataLayerCpu> registered("DummyData", DeviceType::kCpu);

}  // namespace
}  // namespace millrace
