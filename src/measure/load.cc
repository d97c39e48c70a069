#include "measure/load.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

namespace millrace {
namespace {

constexpr int kStride = 64;
// A power of two, so that sums are exact.
constexpr float kStep = 1.0f / 1024;
constexpr int64_t kPauseNs = 200'000;
constexpr int64_t kPausePerWork = 20;
constexpr int64_t kOffPauseNs = 5'000'000;

int64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

}  // namespace

// Not inlined: the thread sanitizer is told of it by name.
__attribute__((noinline)) void HogwildUpdateEvery64th(float* weights, int64_t count, int phase) {
  for (int64_t i = phase; i < count; i += kStride) weights[i] += kStep;
}

Load::Load(float* weights, int64_t count, IterationClock* iterations, ErrorSink* sink)
    : weights_(weights),
      count_(count),
      iterations_(*iterations),
      slot_(iterations->RegisterSolver()),
      thread_(
          "load", [this] { Run(); }, sink) {}

Load::~Load() {
  stop_ = true;
  thread_.Join();
  iterations_.ReleaseSolver(slot_);
}

void Load::Switch(bool on) {
  std::lock_guard lock(mutex_);
  on_ = on;
}

void Load::Run() {
  int64_t pause = kPauseNs;
  while (!stop_) {
    {
      std::lock_guard lock(mutex_);
      if (on_ && iterations_.Claim(INT64_MAX)) {
        const int64_t begin = ThreadCpuNs();
        HogwildUpdateEvery64th(weights_, count_, static_cast<int>(steps_ % kStride));
        iterations_.Done(slot_);
        ++steps_;
        pause = std::max(kPauseNs, (ThreadCpuNs() - begin) * kPausePerWork);
      } else {
        pause = kOffPauseNs;
      }
    }
    cpu_ns_ = ThreadCpuNs();
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
  }
}

}  // namespace millrace
