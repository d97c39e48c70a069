// Nets with an LSTM: they learn, and their weights fit Caffe's files.
#include <cmath>

#include "test/nn/net_support.h"
#include "test/support/blob_values.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int kSteps = 10, kStreams = 16;

// Says, in the last step, which bit it saw in the first.
const char kRemember[] = R"(
layer { name: 'in' type: 'Input' top: 'x' top: 'cont' top: 'label'
        input_param { shape { dim: 10 dim: 16 dim: 1 } shape { dim: 10 dim: 16 }
                      shape { dim: 10 dim: 16 } } }
layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'h'
        recurrent_param { num_output: 8 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } } }
layer { name: 'scores' type: 'InnerProduct' bottom: 'h' top: 'scores'
        inner_product_param { axis: 2 num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'loss'
        softmax_param { axis: 2 } loss_param { ignore_label: -1 } }
)";

// Each stream begins with a random bit of +1 or -1, then sees small noise.
void SetBits(TestNet* net, Rng* rng) {
  Array x(kSteps * kStreams), cont(x.size(), 1.0), label(x.size(), -1.0);
  for (int n = 0; n < kStreams; ++n) {
    const int bit = static_cast<int>(rng->Below(2));
    for (int t = 0; t < kSteps; ++t) {
      x[t * kStreams + n] = t == 0 ? 2 * bit - 1 : rng->Uniform() / 8;
    }
    cont[n] = 0;
    label[(kSteps - 1) * kStreams + n] = bit;
  }
  SetData(x, (*net)->FindBlob("x"));
  SetData(cont, (*net)->FindBlob("cont"));
  SetData(label, (*net)->FindBlob("label"));
}

TEST(LstmNet, LearnsToRememberABit) {
  TestNet net(kRemember);
  Rng rng(11, {1});
  const int64_t weights = net->layout().size();
  std::vector<float> velocity(weights, 0.0f);
  SetBits(&net, &rng);
  const float first = net.Pass();
  EXPECT_NEAR(first, std::log(2.0f), 0.2f);
  for (int iteration = 0; iteration < 400; ++iteration) {
    SetBits(&net, &rng);
    net.Pass();
    for (int64_t i = 0; i < weights; ++i) {
      velocity[i] = 0.9f * velocity[i] - 0.2f * net->gradients()[i];
      net.weights()[i] += velocity[i];
    }
  }
  SetBits(&net, &rng);
  EXPECT_LT(net.Pass(), 0.05f);
}

TEST(LstmNet, GradientIsTheDerivativeOfTheLoss) {
  TestNet net(kRemember);
  Rng rng(Seed(), {2});
  SetBits(&net, &rng);
  net.Pass();
  for (const ParamEntry& entry : net->layout().entries()) {
    const std::vector<float> gradient = net.Gradient(entry.name);
    for (int sample = 0; sample < 6; ++sample) {
      const auto index = static_cast<int64_t>(rng.Below(entry.count));
      float* const weight = net.weights() + entry.offset + index;
      const float before = *weight, step = 0.02f;
      *weight = before + step;
      const double above = net->Forward();
      *weight = before - step;
      const double below = net->Forward();
      *weight = before;
      EXPECT_NEAR(gradient[index], (above - below) / (2 * step), 1e-3) << entry.name;
    }
  }
}

TEST(LstmNet, LoadsItsWeightsFromASavedNet) {
  TestNet net(kRemember), other(kRemember);
  Rng rng(Seed(), {3});
  for (int64_t i = 0; i < net->layout().size(); ++i) net.weights()[i] = rng.Uniform();
  caffe::NetParameter saved;
  net->ToProto(&saved, false);
  EXPECT_EQ(other->CopyWeightsFrom(saved, "saved"), 2);
  for (const ParamEntry& entry : net->layout().entries()) {
    EXPECT_EQ(other.Weights(entry.name), net.Weights(entry.name)) << entry.name;
  }
}

}  // namespace
}  // namespace millrace::test
