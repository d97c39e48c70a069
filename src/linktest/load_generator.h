// Stands in for solvers: progress on every chunk, for next to nothing.
//
// A thread wakes every 0.2 ms, adds a small number to every 64th weight, each time to
// others, and counts one iteration. That makes every chunk of 64 weights or more due for
// a position or a difference, so segments sweep as fast as their links and paces allow,
// up to some 4,000 times a second; after 64 steps all weights have changed. One step on a
// million weights takes 16,384 additions, about 30 us. Where it takes longer than a
// twentieth of the pause, as on large nets, the pause is twenty times what it took, so
// the thread takes a twentieth of a core; but at most 0.1 s, since a step is what a sweep
// finds to take along, so that steps of more than 5 ms take more.
//
// On a device a kernel adds the same, by merging a sparse difference; the pause then follows
// the time that this takes, so that the device is the segments' for nineteen parts of twenty.
//
// What this is not: the bytes of float32, bfloat16 and int8 frames do not depend on what
// the weights are, but those of a sparse codec do. With this load nearly all of a
// chunk's weights have changed when it is exchanged at 60 times a second or less, which is
// the worst case for it; faster links see sparser differences.
#ifndef MILLRACE_LINKTEST_LOAD_GENERATOR_H_
#define MILLRACE_LINKTEST_LOAD_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "base/thread.h"
#include "segment/replica_device.h"
#include "weights/iteration_clock.h"

namespace millrace {

// The step that the thread repeats: adds to each weights[i] with i % 64 == `phase` (0 to
// 63). Others may write the array meanwhile. The sum of what was added to any weight
// stays exact for 2^24 steps.
void HogwildUpdateEvery64th(float* weights, int64_t count, int phase);

// One step on a replica, and the clock that tells what it costs.
struct LoadStep {
  std::function<void(int phase)> run;
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
};
// `weights`: `count` floats in the memory of `home`, which outlive the step. Throws Error if
// there is not enough memory; a step does when its device has failed.
LoadStep LoadStepOn(const ReplicaDevice& home, float* weights, int64_t count);

// Thread-safe.
class LoadGenerator {
 public:
  // Off at first. What `step` works on, `iterations` and `sink` outlive the load.
  LoadGenerator(LoadStep step, IterationClock* iterations, ErrorSink* sink);
  ~LoadGenerator();

  // After Switch(false) has returned, no more progress is made.
  void Switch(bool on);
  // Processor time that the thread has used so far, in ns.
  int64_t cpu_ns() const { return thread_.cpu_ns(); }
  // Steps made so far.
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

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_LOAD_GENERATOR_H_
