// How much processor time a group of threads gets, and how long its threads wait for a processor
// that others have, as the kernel counts it (/proc/PID/task/TID/schedstat).
#ifndef MILLRACE_BASE_THREAD_LOAD_H_
#define MILLRACE_BASE_THREAD_LOAD_H_

#include <cstdint>
#include <list>
#include <mutex>

#include "base/file_descriptor.h"

namespace millrace {

// Sums over the threads of a group since each of them joined it; never fall.
struct ThreadTimes {
  int64_t cpu_ns = 0;      // on a processor
  int64_t waiting_ns = 0;  // ready to run, while all processors that it may use were taken
};

// Thread-safe.
class ThreadLoad {
 public:
  // A thread's membership, from its construction to its destruction, which both happen on that
  // thread.
  class Member {
   public:
    // `load` outlives the member.
    explicit Member(ThreadLoad* load);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    friend class ThreadLoad;
    // Adds what the thread has had since it joined.
    void AddTo(ThreadTimes* times) const;
    ThreadLoad& load_;
    FileDescriptor schedstat_;
    ThreadTimes joined_;  // the thread's times when it joined
    std::list<Member*>::iterator place_;
  };

  // Of all members, those that have left included. Costs a system call for each member.
  ThreadTimes Read() const;
  // Members at present.
  int threads() const;
  // Whether the kernel counts waiting times. Without it waiting_ns stays 0.
  static bool Supported();

 private:
  // False if the file cannot be read.
  static bool ReadTimes(int fd, ThreadTimes* times);

  mutable std::mutex mutex_;
  std::list<Member*> members_;
  ThreadTimes left_;  // of members that have left
};

}  // namespace millrace

#endif  // MILLRACE_BASE_THREAD_LOAD_H_
