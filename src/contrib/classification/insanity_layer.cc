// Randomized leaky ReLU (Xu, Wang, Chen, Li 2015; happynear/caffe-windows):
//   top = x for x > 0, x / a otherwise
//   training: a is drawn evenly from insanity_param.lb to .ub, for each value and pass
//   tests:    1 / a is the mean of those of training: a = (ub - lb) / log(ub / lb)
// The range must not include 0. The divisors are a function of (seed, layer, pass) alone. The layer
// may work in place.
#include <cmath>

#include "contrib/classification/insanity_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layers/random_key.h"

namespace millrace::inline contrib {
namespace {

class InsanityLayer : public Layer, public PreparesPass {
 public:
  InsanityLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"insanity_param"}; }

  void SetUp(const Blobs&, const Blobs&) override {
    const double low = param_.insanity_param().lb(), high = param_.insanity_param().ub();
    if (!(low < high && low * high > 0 && std::isfinite(high - low))) {
      throw FieldError("insanity_param.lb", low, " given with an ub of ", high,
                       ", expected a smaller number of the same sign");
    }
    low_ = static_cast<float>(low);
    range_ = static_cast<float>(high - low);
    if (context_.phase == caffe::TRAIN) return;
    low_ = static_cast<float>((high - low) / std::log(high / low));
    range_ = 0;
  }
  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->ReshapeLike(*bottom[0]);
    // Divided by a number above 0, the top has the sign of the bottom.
    keeps_ = low_ < 0;
    if (keeps_) kept_.Reshape(*bottom[0], *top[0]);
    key_.Allocate(memory());
  }
  void PreparePass() override { key_.Store(context_, kRngDropout); }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    PrepareInForward();
    if (keeps_) kept_.Keep(*bottom[0], *context_.queue);
    Run(bottom[0]->count(), bottom[0]->data(), bottom[0]->data(), top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    Run(bottom[0]->count(), keeps_ ? kept_.Values(*bottom[0]) : bottom[0]->data(), top[0]->diff(),
        bottom[0]->diff());
  }

 private:
  void Run(int64_t count, const float* sign, const float* in, float* out) {
    Launch(*context_.queue, RandomlyDivideNegatives::counters(count),
           RandomlyDivideNegatives{key_.get(), low_, range_, count, sign, in, out});
  }

  float low_ = 1, range_ = 0;
  bool keeps_ = false;  // whether the sign of the bottom is lost in place
  KeptBottom kept_;
  RandomKey key_;
};

const RegisterLayer<InsanityLayer> insanity_layer("Insanity");

}  // namespace
}  // namespace millrace::inline contrib
