// The GPUs of this machine, for tests and benchmarks that run on each of them.
#ifndef MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_
#define MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "millrace/device.h"

namespace millrace::test {

// CUDA ordinals; {0} without a GPU, so that the test is reported as skipped.
inline std::vector<int> CudaOrdinals() {
  DeviceDriver* const driver = DeviceRegistry::Get().FindDriver(DeviceType::kCuda);
  const size_t found = driver ? driver->List().size() : 0;
  std::vector<int> ordinals(std::max<size_t>(found, 1));
  for (size_t i = 0; i < ordinals.size(); ++i) ordinals[i] = static_cast<int>(i);
  return ordinals;
}

// Why device `ordinal` is unavailable, as a line that begins with "no CUDA device: "; "" if it is
// available.
inline std::string WhyNoCudaDevice(int ordinal) {
  const std::string none = "no CUDA device: ";
  if (!DeviceRegistry::Get().FindDriver(DeviceType::kCuda)) {
    return none + "this build has no CUDA";
  }
  try {
    DeviceRegistry::Get().Find(DeviceType::kCuda, ordinal);
  } catch (const Error& error) {
    return none + error.what();
  }
  return "";
}

// Why device `ordinal`, which is there, does no work: a failure of a kernel stays with the process,
// and all later calls report it. "" if it works.
inline std::string WhyBrokenCudaDevice(int ordinal) {
  try {
    DeviceRegistry::Get()
        .Find(DeviceType::kCuda, ordinal)
        .MakeQueue(QueuePriority::kNormal)
        ->Synchronize();
  } catch (const Error& error) {
    return StrCat("the GPU has failed before this test: ", error.what());
  }
  return "";
}

// For SetUp of tests on GPUs: skips the test if there is no such device. Once the device has
// failed, each later test of the process fails here, with the text, before it begins.
inline void RequireCudaDevice(int ordinal) {
  if (const std::string why = WhyNoCudaDevice(ordinal); !why.empty()) GTEST_SKIP() << why;
  if (const std::string why = WhyBrokenCudaDevice(ordinal); !why.empty()) FAIL() << why;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_
