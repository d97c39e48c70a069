// Members of groups in threads of their own.
#ifndef MILLRACE_TEST_COLLECTIVE_GROUP_THREADS_H_
#define MILLRACE_TEST_COLLECTIVE_GROUP_THREADS_H_

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collective/thread_group.h"

namespace millrace::test {

// The groups of `processes` processes of `threads` threads each, in one process: that between the
// processes is a group of threads, too.
class FakeProcesses {
 public:
  FakeProcesses(int processes, int threads) : threads_(threads), between_(processes) {
    for (int i = 0; i < processes; ++i) {
      groups_.push_back(
          std::make_unique<ThreadGroup>(threads, processes > 1 ? &between_.member(i) : nullptr));
    }
  }
  int size() const { return threads_ * static_cast<int>(groups_.size()); }
  ThreadGroup& group(int process) { return *groups_[process]; }
  Collective& member(int rank) { return groups_[rank / threads_]->member(rank % threads_); }

  // Runs `body` for every member in a thread of its own. Rethrows the first error, that of the
  // lowest rank, and poisons the groups with an error.
  void Run(const std::function<void(Collective& member)>& body) {
    std::vector<std::exception_ptr> errors(size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(member(rank));
        } catch (...) {
          errors[rank] = std::current_exception();
          for (auto& group : groups_) group->Poison(errors[rank]);
          between_.Poison(errors[rank]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  const int threads_;
  ThreadGroup between_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_COLLECTIVE_GROUP_THREADS_H_
