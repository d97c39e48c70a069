// A group whose members are threads of this process, and those of the other processes of a run if
// there are any. Sums are added in this process first, then between the processes while the threads
// go on.
#ifndef MILLRACE_COLLECTIVE_THREAD_GROUP_H_
#define MILLRACE_COLLECTIVE_THREAD_GROUP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/barrier.h"
#include "collective/collective.h"

namespace millrace::inline collective {

// Thread-safe; each member is for one thread.
class ThreadGroup {
 public:
  // `threads`: of this process, the same number in every process. `between`: the group of the
  // processes, which outlives this object; null: this process is alone.
  explicit ThreadGroup(int threads, Collective* between = nullptr);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // The member of thread `index`, from 0. Its rank is index + threads * rank of the process.
  Collective& member(int index) const;

  // Makes all operations of this process's members throw `error`, at once also in threads that
  // wait. Later calls have no effect. Does not wait.
  void Poison(std::exception_ptr error) { barrier_.Poison(std::move(error)); }
  // Returns when every thread of this process has called it.
  void WaitForThreads() { barrier_.Wait(); }

 private:
  class Member;
  // One operation of all threads.
  struct Sum {
    std::vector<float*> parts;  // by thread
    int64_t count = 0;
    int arrived = 0;
    bool added = false;  // the sum over the threads is in parts[0]
  };
  // The sums between two calls of Wait, in the order in which each thread starts them.
  struct Round {
    std::deque<Sum> sums;
    size_t taken = 0;    // sums that some thread adds or has added
    size_t started = 0;  // those handed to between_
  };

  bool has_peers() const { return between_ != nullptr && between_->size() > 1; }
  void Start(int thread, uint64_t round, size_t number, std::span<float> values);
  // Adds the parts of sums that all threads have started, until none is left.
  void AddReady(Round* round);
  void Finish(int thread, uint64_t round, const std::vector<std::span<float>>& wanted,
              const std::function<void()>& check);

  const int threads_;
  Collective* const between_;
  Barrier barrier_;
  std::mutex mutex_;
  // A thread may begin a round while others still read the results of the one before.
  std::array<Round, 2> rounds_;
  std::span<std::byte> broadcast_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_THREAD_GROUP_H_
