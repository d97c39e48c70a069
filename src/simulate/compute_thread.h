// A thread in which some of the workers of a simulation are made and compute.
#ifndef MILLRACE_SIMULATE_COMPUTE_THREAD_H_
#define MILLRACE_SIMULATE_COMPUTE_THREAD_H_

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/threads/queue.h"
#include "base/threads/thread.h"
#include "train/one_omp_thread.h"

namespace millrace::inline simulate {

class ComputeThread {
 public:
  // `sink` outlives the thread.
  ComputeThread(int index, ErrorSink* sink)
      : work_(64),
        thread_(
            StrCat("compute ", index), [this] { Body(); }, sink) {}
  ~ComputeThread() {
    work_.Close();
    thread_.Join();
  }

  // Runs `work` after all that was posted before. The future has what it throws.
  std::future<void> Post(std::function<void()> work) {
    auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
    std::future<void> done = task->get_future();
    work_.Push(std::move(task));
    return done;
  }

 private:
  void Body() {
    const OneOmpThread one;
    while (const auto task = work_.Pop()) (**task)();
  }

  BoundedQueue<std::shared_ptr<std::packaged_task<void()>>> work_;
  Thread thread_;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_COMPUTE_THREAD_H_
