// The arithmetic that was asked for is the one that computes: no pass falls back to another without
// a word.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "millrace/device.h"
#include "nn/gpu/gpu_settings.h"
#include "test/gpu/arithmetic_probe.h"
#include "test/support/cuda_devices.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(GpuArithmetic, KeepsAllBitsOnAFakeDevice) {
  FakeDevice device({.mode = FakeMode::kLate});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  ArithmeticProbe probe(*queue, GpuLibraryOf(*queue), 2, 4, 6);
  for (const float e : {kBelowTf32, kBelowBfloat16}) {
    EXPECT_NEAR(probe.Forward(e), 1, 1e-3);
    EXPECT_NEAR(probe.BackwardData(e), 1, 1e-3);
    EXPECT_NEAR(probe.BackwardWeights(e), 1, 1e-3);
    EXPECT_NEAR(probe.Product(e), 1, 1e-3);
  }
}

struct Setting {
  const char* name;
  GpuPrecision precision;
  const char* convolutions;  // as plans report it
  // Whether factors of convolutions, and of products, keep what TF32, and what bfloat16, cannot.
  bool keeps_beyond_tf32, keeps_beyond_bfloat16, products_beyond_tf32, products_beyond_bfloat16;
};
constexpr Setting kSettings[] = {
    {"Auto", GpuPrecision::kAuto, "tf32", false, true, true, true},
    {"Float32", GpuPrecision::kFloat32, "fp32", true, true, true, true},
    {"Tf32", GpuPrecision::kTf32, "tf32", false, true, false, true},
    {"Bfloat16", GpuPrecision::kBfloat16, "bf16", false, false, false, false}};

// Whether algorithms are measured or cuDNN's heuristics choose them.
class GpuArithmetic : public testing::TestWithParam<std::tuple<Setting, bool>> {
};

// Needs a GPU.
TEST_P(GpuArithmetic, IsTheOneThatWasAskedForOnCuda) {
  const auto& [setting, measured] = GetParam();
  for (const int ordinal : CudaOrdinals()) {
    const std::string why = WhyNoCudaDevice(ordinal);
    if (!why.empty()) GTEST_SKIP() << why;
    Device& device = DeviceRegistry::Get().Find(DeviceType::kCuda, ordinal);
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    GpuSettingsOf(*queue).precision = setting.precision;
    GpuSettingsOf(*queue).measure_seconds = measured ? 5 : 0;
    ArithmeticProbe probe(*queue, GpuLibraryOf(*queue), 16, 128, 30);
    const auto expect = [](double multiple, bool keeps, const char* what) {
      EXPECT_NEAR(multiple, keeps ? 1 : 0, 0.3) << what;
    };
    for (const float e : {kBelowTf32, kBelowBfloat16}) {
      const bool tf32 = e == kBelowTf32;
      SCOPED_TRACE(tf32 ? "what TF32 cannot hold" : "what bfloat16 cannot hold");
      const bool keeps = tf32 ? setting.keeps_beyond_tf32 : setting.keeps_beyond_bfloat16;
      expect(probe.Forward(e), keeps, "forward");
      expect(probe.BackwardData(e), keeps, "backward");
      expect(probe.BackwardWeights(e), keeps, "weight");
      expect(probe.Product(e),
             tf32 ? setting.products_beyond_tf32 : setting.products_beyond_bfloat16, "product");
    }
    std::string algorithms;
    EXPECT_EQ(probe.Reported(&algorithms), setting.convolutions) << algorithms;
    std::cout << device.name() << ", " << setting.name << (measured ? ", measured:" : ":")
              << algorithms << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuArithmetic,
                         testing::Combine(testing::ValuesIn(kSettings), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "Measured" : "");
                         });

}  // namespace
}  // namespace millrace::test
