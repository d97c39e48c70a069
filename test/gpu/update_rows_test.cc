// Update rules on devices change all parameters in one launch, as on the host.
#include <cmath>

#include "base/rng.h"
#include "test/gpu/gpu_support.h"
#include "test/support/problem.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

// Parameters of several sizes, with a gap between two, one that is not learned, and one of more
// than a row.
std::vector<UpdateParam> Params() {
  std::vector<UpdateParam> params;
  int64_t offset = 3;
  const auto add = [&](int64_t count, float lr_mult, float decay_mult) {
    params.push_back({StrCat("p", params.size()), {count}, offset, count, lr_mult, decay_mult});
    offset += count;
  };
  add(1, 1, 1);
  add(500, 2, 0);
  add(70, 0, 1);
  offset += 5;
  add(20'000, 0.5f, 3);
  add(8192, 1, 1);
  return params;
}
constexpr int64_t kSize = 28'800;

class Updates {
 public:
  Updates(const std::string& solver, Device& device)
      : queue_(device.MakeQueue(QueuePriority::kNormal)),
        weights_(device.memory(), kSize * sizeof(float)),
        gradients_(device.memory(), kSize * sizeof(float)) {
    caffe::SolverParameter param;
    ParseText(solver, "solver.prototxt", &param, nullptr);
    rule_ = UpdateRuleRegistry::Get().Create(param, Params(), kSize, *queue_);
    Set(weights_, 0);
  }
  void Apply(int iteration) {
    queue_->Synchronize();
    Set(gradients_, 1 + iteration);
    rule_->Apply(0.1f, static_cast<float>(iteration % 2), gradients_.get<float>(),
                 weights_.get<float>());
  }
  Floats Weights() {
    queue_->Synchronize();
    Floats values(kSize);
    queue_->device().memory().CopyToHost(values.data(), weights_.get(), weights_.bytes());
    return values;
  }
  Queue& queue() { return *queue_; }

 private:
  void Set(const Buffer& array, uint64_t number) {
    Rng rng(7, {number});
    Floats values(kSize);
    for (float& value : values) value = rng.Gaussian();
    queue_->device().memory().CopyFromHost(array.get(), values.data(), array.bytes());
  }

  const std::unique_ptr<Queue> queue_;
  const Buffer weights_, gradients_;
  std::unique_ptr<UpdateRule> rule_;
};

const char* const kSolvers[] = {
    "momentum: 0.9 weight_decay: 0.01",
    "momentum: 0.9 weight_decay: 0.01 regularization_type: 'L1' clip_gradients: 20",
    "type: 'Nesterov' momentum: 0.9 weight_decay: 0.01 iter_size: 2 clip_gradients: 1e6",
    "type: 'AdaGrad' delta: 1e-3 weight_decay: 0.01",
    "type: 'RMSProp' delta: 1e-2 weight_decay: 0.01 regularization_type: 'L1' clip_gradients: 5",
    "type: 'AdaDelta' momentum: 0.9 delta: 1e-3",
    "type: 'Adam' momentum: 0.9 delta: 1e-2 weight_decay: 0.01 clip_gradients: 5"};

class UpdateRows : public OnChosenDevice {};

TEST_P(UpdateRows, ChangeAllParametersAsOnTheHost) {
  for (const char* solver : kSolvers) {
    SCOPED_TRACE(solver);
    Updates host(solver, HostDevice()), device(solver, first());
    const Floats before = host.Weights();
    for (int i = 0; i < 5; ++i) host.Apply(i), device.Apply(i);
    const Floats expected = host.Weights(), actual = device.Weights();
    EXPECT_NE(expected, before);
    Floats unchanged(kSize, 1.0f);
    for (const UpdateParam& each : Params()) {
      if (each.lr_mult != 0) std::fill_n(unchanged.begin() + each.offset, each.count, 0.0f);
    }
    for (int64_t i = 0; i < kSize; ++i) {
      if (unchanged[i] != 0) {
        ASSERT_EQ(actual[i], before[i]) << i;
      } else {
        ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, UpdateRows, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

TEST(UpdateRowsTest, KeepTheirTableUntilTheLastUpdateHasRun) {
  for (const char* solver : kSolvers) {
    SCOPED_TRACE(solver);
    FakeDevice device({.mode = FakeMode::kLate});
    Updates updates(solver, device);
    updates.Apply(0);
  }
}

TEST(UpdateRowsTest, NeedOneLaunchAndThreeMoreIfTheSolverClips) {
  for (const char* solver : kSolvers) {
    SCOPED_TRACE(solver);
    FakeDevice device;
    Updates updates(solver, device);
    updates.Apply(0);
    updates.queue().Synchronize();
    const uint64_t before = FakeQueue::Of(updates.queue()).enqueued();
    updates.Apply(1);
    const bool clips = std::string(solver).find("clip") != std::string::npos;
    EXPECT_EQ(FakeQueue::Of(updates.queue()).enqueued() - before, clips ? 4u : 1u);
  }
}

// Counts its updates in its history.
class CountingRule : public UpdateRule {
 public:
  explicit CountingRule(const UpdateContext& context) : UpdateRule(context, 1) {}
  void Apply(float, float, const float*, float* weights) override {
    EnqueueKernel(
        queue(), [](float* history, float* weight) { *weight = *history += 1; }, history(0),
        weights);
  }
};

TEST(UpdateRules, EndAfterTheirKernels) {
  FakeDevice device({.mode = FakeMode::kLate});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  const FakeQueue& late = FakeQueue::Of(*queue);
  const Buffer weights(device.memory(), sizeof(float));
  {
    CountingRule rule({.param = {}, .params = {}, .size = 1, .queue = queue.get()});
    rule.Apply(0.1f, false, nullptr, weights.get<float>());
    ASSERT_LT(late.run(), late.enqueued());
  }
  // Else the kernel would find its history freed.
  EXPECT_EQ(late.run(), late.enqueued());
}

}  // namespace
}  // namespace millrace::test
