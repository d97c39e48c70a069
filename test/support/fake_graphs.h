// Recorded work of fake devices (device/work_graph.h).
#ifndef MILLRACE_TEST_SUPPORT_FAKE_GRAPHS_H_
#define MILLRACE_TEST_SUPPORT_FAKE_GRAPHS_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/work_graph.h"
#include "test/support/fake_device.h"

namespace millrace::test {

// What the calling thread records. As on a GPU, work on the queue is taken down and not run, and
// nothing else is allowed on the device.
class FakeRecording : public GraphPoints {
 public:
  // What is not work.
  enum class Point { kNone, kMark, kWait };
  struct Step {
    FakeQueue::Work work;  // none: a point
    Point point = Point::kNone;
  };

  // Null if the thread records nothing.
  static FakeRecording* Current();
  // Throws Error if the thread records work, which the call named `what` would break.
  static void Refuse(const char* what);

  explicit FakeRecording(FakeQueue* queue);
  ~FakeRecording() override;
  FakeRecording(const FakeRecording&) = delete;
  FakeRecording& operator=(const FakeRecording&) = delete;

  FakeQueue& queue() const { return queue_; }
  // Count as calls of the device.
  void Take(FakeQueue::Work work) { Add({std::move(work)}); }
  void Mark() override { Add({{}, Point::kMark}); }
  void Wait() override { Add({{}, Point::kWait}); }
  std::vector<Step>& steps() { return steps_; }

 private:
  void Add(Step step);

  FakeQueue& queue_;
  std::vector<Step> steps_;
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
