// The GPUs of this machine, for tests and benchmarks that run on each of them.
#ifndef MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_
#define MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_

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

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CUDA_DEVICES_H_
