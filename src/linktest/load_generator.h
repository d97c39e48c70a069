// A synthetic load in place of solvers: progress on every chunk at low cost.
//
// Every 0.2 ms a thread adds a small number to every 64th weight, with a rotating phase, and counts
// one iteration. So every chunk of 64 weights or more is due for a position or a diff, and segments
// sweep as fast as their links and paces allow, up to about 4,000 times per second. After 64 steps
// all weights have changed. A step on a million weights takes 16,384 additions, about 30 us. If a
// step takes longer than a twentieth of the pause, as on large nets, the pause grows to twenty
// times the step, so that the thread takes a twentieth of a core. The pause is at most 0.1 s, so
// that sweeps find new progress; steps longer than 5 ms therefore take a larger share.
//
// On a device a kernel adds the same values by merging a sparse diff. The pause follows the
// duration of the step, so that 95 % of the device's time remains for the segments.
//
// Limitation: frame sizes of float32, bfloat16 and int8 do not depend on the weights, but those of
// the sparse codec do. Under this load nearly all weights of a chunk have changed if it is
// exchanged 60 times per second or less, the worst case for that codec. Faster links see sparser
// diffs.
#ifndef MILLRACE_LINKTEST_LOAD_GENERATOR_H_
#define MILLRACE_LINKTEST_LOAD_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "base/threads/thread.h"
#include "segment/replica_device.h"
#include "weights/iteration_clock.h"

namespace millrace::inline linktest {

// Adds a constant to each weights[i] with i % 64 == `phase` (0 to 63). Other threads may write the
// array concurrently. The sum added to any weight is exact for 2^24 steps.
void HogwildUpdateEvery64th(float* weights, int64_t count, int phase);

// A step on a replica, and the clock that measures its cost.
struct LoadStep {
  std::function<void(int phase)> run;
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
};
// `weights`: `count` floats in the memory of `replica_device`, which outlive the step. Throws Error
// if memory is exhausted; a step throws Error if its device has failed.
LoadStep LoadStepOn(const ReplicaDevice& replica_device, float* weights, int64_t count);

// Thread-safe.
class LoadGenerator {
 public:
  // Starts switched off. The data of `step`, `iterations` and `sink` outlive this object.
  LoadGenerator(LoadStep step, IterationClock* iterations, ErrorSink* sink);
  ~LoadGenerator();

  // No step runs after Switch(false) has returned.
  void Switch(bool on);
  // Processor time of the thread, in ns.
  int64_t cpu_ns() const { return thread_.cpu_ns(); }
  // Steps so far.
  int64_t steps() const { return steps_; }

 private:
  void Run();

  const LoadStep step_;
  IterationClock& iterations_;
  const int slot_;
  std::mutex mutex_;  // held during a step
  bool on_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> steps_{0};
  Thread thread_;
};

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_LOAD_GENERATOR_H_
