// Recorded work of fake devices (device/work_graph.h).
#ifndef MILLRACE_TEST_SUPPORT_FAKE_GRAPHS_H_
#define MILLRACE_TEST_SUPPORT_FAKE_GRAPHS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "test/support/fake_device.h"

namespace millrace::test {

// What the calling thread records. As on a GPU, work on the queue is taken down and not run, and
// nothing else is allowed on the device.
class FakeRecording {
 public:
  // Null if the thread records nothing.
  static FakeRecording* Current();
  // Throws Error if the thread records work, which the call named `what` would break.
  static void Refuse(const char* what);

  explicit FakeRecording(FakeQueue* queue);
  ~FakeRecording();
  FakeRecording(const FakeRecording&) = delete;
  FakeRecording& operator=(const FakeRecording&) = delete;

  FakeQueue& queue() const { return queue_; }
  // Counts as a call of the device.
  void Take(FakeQueue::Work work);
  std::vector<FakeQueue::Work>& work() { return work_; }

 private:
  FakeQueue& queue_;
  std::vector<FakeQueue::Work> work_;
};

// How fake devices record, and what they have seen. Thread-safe.
struct FakeGraphs {
  static FakeGraphs& Get();
  void Reset() { refuses_from = INT64_MAX, recorded = replayed = 0; }

  std::atomic<int64_t> refuses_from{INT64_MAX};  // number from 0 of the first that is refused
  std::atomic<int64_t> recorded{0}, replayed{0};
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_GRAPHS_H_
