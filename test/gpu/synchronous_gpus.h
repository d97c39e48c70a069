// Runs whose solvers, on fake GPUs, all take the same iterations.
#ifndef MILLRACE_TEST_GPU_SYNCHRONOUS_GPUS_H_
#define MILLRACE_TEST_GPU_SYNCHRONOUS_GPUS_H_

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "test/gpu/gpu_support.h"
#include "test/train/allreduce_support.h"

namespace millrace::test {

struct Gpus {
  FakeMode mode = FakeMode::kThread;
  int count = 1;
};
inline void PrintTo(const Gpus& gpus, std::ostream* out) {
  *out << ModeName(gpus.mode) << gpus.count;
}

class OnFakeGpus : public testing::TestWithParam<Gpus> {
 protected:
  OnFakeGpus() {
    for (int i = 0; i < GetParam().count; ++i) {
      gpus_.push_back(
          std::make_unique<FakeDevice>(FakeDeviceOptions{.mode = GetParam().mode, .ordinal = i}));
    }
  }
  TrainOptions OnGpus() const {
    TrainOptions options;
    for (const auto& gpu : gpus_) options.gpus.push_back(gpu.get());
    return options;
  }
  std::vector<std::unique_ptr<FakeDevice>> gpus_;
  const std::unique_ptr<Workspace> work_ = WorkWithBatch(4, true);
};

// Queues of the mode kLate work when they are waited for, so that several of them would never reach
// a common sum.
inline const Gpus kGpus[] = {{FakeMode::kAtOnce, 1}, {FakeMode::kAtOnce, 3},
                             {FakeMode::kLate, 1},   {FakeMode::kThread, 1},
                             {FakeMode::kThread, 2}, {FakeMode::kThread, 4}};
inline std::string NameOfGpus(const testing::TestParamInfo<Gpus>& info) {
  return testing::PrintToString(info.param);
}

inline TrainOptions On(const std::vector<Device*>& gpus, std::optional<int> cpus = {}) {
  TrainOptions options;
  options.gpus = gpus;
  options.solvers = cpus;
  return options;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_GPU_SYNCHRONOUS_GPUS_H_
