// A named thread that can always be stopped. Stop() interrupts the queue or condition on which the
// thread waits (Boost.Thread interruption points) and joins it. An exception that leaves the body
// goes to the error sink.
#ifndef MILLRACE_BASE_THREADS_THREAD_H_
#define MILLRACE_BASE_THREADS_THREAD_H_

#include <atomic>
#include <boost/thread/thread.hpp>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "base/error.h"

namespace millrace::inline base {

class Thread {
 public:
  // Starts `body` immediately. Debuggers and `top -H` show the first 15 bytes of `name`. `sink`
  // must outlive the thread.
  Thread(std::string name, std::function<void()> body, ErrorSink* sink);
  // Calls Stop().
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Requests that the body end at its next interruption point. Does not wait.
  void Interrupt();
  // Waits until the body returns.
  void Join();
  void Stop() {
    Interrupt();
    Join();
  }
  // CPU time used so far, in ns. 0 before the thread runs and soon after it ends. Thread-safe.
  int64_t cpu_ns() const;

 private:
  std::atomic<clockid_t> cpu_clock_{0};  // CPU-time clock of the thread; 0 until it runs
  boost::thread thread_;
};

// For bodies that compute for long: throws if the thread has been asked to stop.
inline void InterruptionPoint() { boost::this_thread::interruption_point(); }

// Lowers the nice value of the calling thread by 10, so that it runs soon after a wake-up even when
// the processors are busy. For threads that do little work per wake-up. Returns false and changes
// nothing without permission (CAP_SYS_NICE, or a sufficient RLIMIT_NICE).
bool RunBeforeOthers();

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_THREAD_H_
