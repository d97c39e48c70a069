#include "linktest/load_generator.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "exchange/kernels/stream_executor.h"
#include "test/support/emulated_launcher.h"
#include "test/support/eventually.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::Eventually;

TEST(LoadGenerator, AStepChangesOneOf64WeightsAndSixtyFourStepsChangeAll) {
  std::vector<float> weights(1000, 2.0f);
  HogwildUpdateEvery64th(weights.data(), 1000, 3);
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i] != 2.0f, i % 64 == 3) << i;
  for (int phase = 0; phase < 64; ++phase) {
    if (phase != 3) HogwildUpdateEvery64th(weights.data(), 1000, phase);
  }
  for (float weight : weights) EXPECT_EQ(weight, 2.0f + 1.0f / 1024);
}

// The processor cannot access these weights.
TEST(LoadGenerator, AddsTheSameToWeightsOnADevice) {
  test::FakeDevice device({.mode = test::FakeMode::kLate});
  const ReplicaDevice replica_device = {
      &device, [&](const ReplicaArrays& arrays, const CodecConfig& codec, const MergeRuleConfig&) {
        return std::make_unique<StreamExecutor>(
            device,
            std::make_unique<test::EmulatedLauncher<>>(
                test::EmulatedOptions{.seed = test::Seed(), .device = &device}),
            arrays, codec);
      }};
  for (const int64_t count : {1, 63, 64, 1000, 8192, 8193, 30'000}) {
    SCOPED_TRACE(count);
    std::vector<float> weights(count, 2.0f);
    Buffer on_device(device.memory(), 4 * count);
    device.memory().CopyFromHost(on_device.get(), weights.data(), 4 * count);
    const LoadStep step = LoadStepOn(replica_device, on_device.get<float>(), count);
    for (const int phase : {0, 3, 63, 3}) {
      step.run(phase);
      HogwildUpdateEvery64th(weights.data(), count, phase);
      std::vector<float> found(count);
      device.memory().CopyToHost(found.data(), on_device.get(), 4 * count);
      ASSERT_EQ(found, weights);
    }
  }
}

TEST(LoadGenerator, MakesProgressOnlyWhileItIsOn) {
  std::vector<float> weights(500, 0.0f);
  IterationClock clock;
  ErrorSink sink;
  LoadGenerator load(LoadStepOn(HostReplica(), weights.data(), 500), &clock, &sink);
  EXPECT_EQ(load.steps(), 0);
  load.Switch(true);
  ASSERT_TRUE(Eventually([&] { return load.steps() >= 100; }));
  load.Switch(false);
  const int64_t steps = load.steps();
  EXPECT_EQ(clock.own(), steps);
  double sum = 0;
  for (float weight : weights) sum += weight;
  // Each step adds to 7 or 8 of 500 weights.
  EXPECT_GE(sum * 1024, 7.0 * static_cast<double>(steps));
  EXPECT_LE(sum * 1024, 8.0 * static_cast<double>(steps));
  EXPECT_EQ(load.steps(), steps);
  EXPECT_GT(load.cpu_ns(), 0);
  load.Switch(true);
  EXPECT_TRUE(Eventually([&] { return load.steps() > steps; }));
}

TEST(LoadGenerator, EndsWhileItIsOn) {
  std::vector<float> weights(64);
  IterationClock clock;
  ErrorSink sink;
  {
    LoadGenerator load(LoadStepOn(HostReplica(), weights.data(), 64), &clock, &sink);
    load.Switch(true);
  }
  sink.RethrowIfFailed();
}

}  // namespace
}  // namespace millrace
