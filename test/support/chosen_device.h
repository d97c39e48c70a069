// Parameters of tests that run on fake devices of every mode and on the GPUs of this machine.
#ifndef MILLRACE_TEST_SUPPORT_CHOSEN_DEVICE_H_
#define MILLRACE_TEST_SUPPORT_CHOSEN_DEVICE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/support/cuda_devices.h"
#include "test/support/fake_device.h"

namespace millrace::test {

inline std::string ModeName(FakeMode mode) {
  return mode == FakeMode::kAtOnce ? "AtOnce" : mode == FakeMode::kLate ? "Late" : "Thread";
}

struct DeviceChoice {
  FakeMode mode = FakeMode::kAtOnce;
  std::optional<int> cuda;  // ordinal of a GPU; none: a fake device
  bool alone = false;       // of fake devices, there is one

  std::string name() const {
    return cuda ? StrCat("OnCuda", *cuda) : ModeName(mode) + (alone ? "Alone" : "");
  }
};
inline void PrintTo(const DeviceChoice& choice, std::ostream* out) { *out << choice.name(); }

// A fake device of each mode, and each GPU of this machine. Without a GPU there is one choice that
// is reported as skipped.
inline std::vector<DeviceChoice> DeviceChoices() {
  std::vector<DeviceChoice> choices;
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    choices.push_back({.mode = mode, .cuda = {}});
  }
  for (const int ordinal : CudaOrdinals()) choices.push_back({.mode = {}, .cuda = ordinal});
  return choices;
}

inline std::string DeviceChoiceName(const testing::TestParamInfo<DeviceChoice>& info) {
  return info.param.name();
}

// Fixture of tests on chosen devices.
class OnChosenDevice : public testing::TestWithParam<DeviceChoice> {
 protected:
  void SetUp() override {
    if (GetParam().cuda) RequireCudaDevice(*GetParam().cuda);
  }
  bool is_fake() const { return !GetParam().cuda; }
  // The chosen device, and another one of its kind.
  Device& first() { return is_fake() ? fakes_[0] : Cuda(*GetParam().cuda); }
  Device& second() { return is_fake() ? fakes_[1] : Cuda(Other()); }
  // Begin a test that needs them with it: returns why it cannot run, "" if it can.
  std::string WhyNoSecond() const {
    const bool has = is_fake() ? !GetParam().alone : CudaOrdinals().size() > 1;
    return has ? "" : "this machine has one GPU";
  }
  // For tests that may also use one device twice.
  Device& other() { return WhyNoSecond().empty() ? second() : first(); }

 private:
  static Device& Cuda(int ordinal) {
    return DeviceRegistry::Get().Find(DeviceType::kCuda, ordinal);
  }
  int Other() const { return *GetParam().cuda == 0 ? 1 : 0; }

  FakeDevice fakes_[2] = {FakeDevice({.mode = GetParam().mode}),
                          FakeDevice({.mode = GetParam().mode, .ordinal = 1})};
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CHOSEN_DEVICE_H_
