// CPU time and run-queue waiting time of a group of threads, as counted by the kernel
// (/proc/PID/task/TID/schedstat).
#ifndef MILLRACE_BASE_THREADS_THREAD_LOAD_H_
#define MILLRACE_BASE_THREADS_THREAD_LOAD_H_

#include <cstdint>
#include <list>
#include <mutex>

#include "millrace/file_descriptor.h"

namespace millrace::inline base {

// Sums over all threads of a group, each counted from the time it joined. Never decreases.
struct ThreadTimes {
  int64_t cpu_ns = 0;      // running on a processor
  int64_t waiting_ns = 0;  // runnable, while all processors allowed to the thread were busy
};

// Thread-safe.
class ThreadLoad {
 public:
  // Membership of one thread. Constructed on that thread; may outlive it.
  class Member {
   public:
    // `load` must outlive the member.
    explicit Member(ThreadLoad* load);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    friend class ThreadLoad;
    // Adds the times since the thread joined; of one that has ended, those of the last call.
    void AddTo(ThreadTimes* times);
    ThreadLoad& load_;
    FileDescriptor schedstat_;
    ThreadTimes joined_;  // times of the thread when it joined
    ThreadTimes read_;    // as of the last call of AddTo
    std::list<Member*>::iterator place_;
  };

  // Times of current and former members. Costs one system call per current member.
  ThreadTimes Read() const;
  // Number of current members.
  int threads() const;

 private:
  // Returns false if the file cannot be read.
  static bool ReadTimes(int fd, ThreadTimes* times);

  mutable std::mutex mutex_;
  std::list<Member*> members_;
  ThreadTimes left_;  // times of former members
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_THREAD_LOAD_H_
