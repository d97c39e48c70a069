#include "linktest/load_generator.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/threads/cache_line.h"
#include "exchange/kernels/kernel_op.h"

namespace millrace::inline linktest {
namespace {

constexpr int kStride = 64;
// A power of two, so that sums are exact.
constexpr float kStep = 1.0f / 1024;
constexpr int64_t kPauseNs = 200'000;
constexpr int64_t kPausePerWork = 20;
constexpr int64_t kMaxPauseNs = 100'000'000;  // longer pauses would leave sweeps without progress
constexpr int64_t kOffPauseNs = 5'000'000;

// The step for weights that only kernels can access: merges the same sparse diff into every chunk.
// The last chunk has its own diff, because it may be shorter.
class DeviceStep {
 public:
  DeviceStep(const ReplicaDevice& replica_device, float* weights, int64_t count)
      : arrays_{.weights = weights,
                .size = count,
                .chunk_floats = std::min(count, kMaxKernelFloats)},
        executor_(replica_device.make_executor(arrays_, {}, {})),
        payloads_(executor_->payload_memory(), 2 * room()),
        ops_(static_cast<size_t>(arrays_.chunks())) {
    executor_->RegisterMemory({payloads_.get<std::byte>(), payloads_.bytes()});
  }

  void Run(int phase) {
    const auto last = static_cast<uint32_t>(ops_.size() - 1);
    std::byte* const whole = payloads_.get<std::byte>();
    std::byte* const rest = whole + room();
    const uint32_t whole_bytes = Write(arrays_.floats_of(0), phase, whole);
    const uint32_t rest_bytes = Write(arrays_.floats_of(last), phase, rest);
    for (uint32_t i = 0; i <= last; ++i) {
      ops_[i] = {.kind = ChunkOpKind::kMerge, .codec = Codec::kSparse, .chunk = i};
      ops_[i].in = i < last ? whole : rest;
      ops_[i].in_bytes = i < last ? whole_bytes : rest_bytes;
    }
    executor_->Run(ops_);
    for (const ChunkOp& op : ops_) CHECK_EQ(op.result, 0);
  }

 private:
  size_t room() const { return WholeCacheLines(MaxEncodedBytes(arrays_.chunk_floats)); }

  // Writes a sparse diff of `floats` elements. Returns its length in bytes.
  static uint32_t Write(int64_t floats, int phase, std::byte* out) {
    const uint32_t bitmap = SparseBitmapBytes(floats);
    std::memset(out, 0, bitmap);
    uint32_t bytes = bitmap;
    for (int64_t i = phase; i < floats; i += kStride) {
      out[i / 8] |= static_cast<std::byte>(1 << i % 8);
      std::memcpy(out + bytes, &kStep, sizeof(kStep));
      bytes += sizeof(kStep);
    }
    return bytes;
  }

  const ReplicaArrays arrays_;
  const std::unique_ptr<ChunkExecutor> executor_;
  Buffer payloads_;  // of a full chunk, and of the last one
  std::vector<ChunkOp> ops_;
};

}  // namespace

// Not inlined: the thread sanitizer's suppressions match this function by its name.
__attribute__((noinline)) void HogwildUpdateEvery64th(float* weights, int64_t count, int phase) {
  for (int64_t i = phase; i < count; i += kStride) weights[i] += kStep;
}

LoadStep LoadStepOn(const ReplicaDevice& replica_device, float* weights, int64_t count) {
  if (replica_device.device->memory().on_host()) {
    return {[=](int phase) { HogwildUpdateEvery64th(weights, count, phase); }};
  }
  const auto step = std::make_shared<DeviceStep>(replica_device, weights, count);
  return {[step](int phase) { step->Run(phase); }, CLOCK_MONOTONIC};
}

LoadGenerator::LoadGenerator(LoadStep step, IterationClock* iterations, ErrorSink* sink)
    : step_(std::move(step)),
      iterations_(*iterations),
      slot_(iterations->RegisterSolver()),
      thread_(
          "load", [this] { Run(); }, sink) {}

LoadGenerator::~LoadGenerator() {
  stop_ = true;
  thread_.Join();
  iterations_.ReleaseSolver(slot_);
}

void LoadGenerator::Switch(bool on) {
  std::lock_guard lock(mutex_);
  on_ = on;
}

void LoadGenerator::Run() {
  int64_t pause = kPauseNs;
  while (!stop_) {
    {
      std::lock_guard lock(mutex_);
      if (on_ && iterations_.Claim(INT64_MAX)) {
        const int64_t begin = PosixClockNs(step_.clock);
        step_.run(static_cast<int>(steps_ % kStride));
        iterations_.Done(slot_);
        ++steps_;
        const int64_t work = PosixClockNs(step_.clock) - begin;
        pause = std::clamp(work * kPausePerWork, kPauseNs, kMaxPauseNs);
      } else {
        pause = kOffPauseNs;
      }
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
  }
}

}  // namespace millrace::inline linktest
