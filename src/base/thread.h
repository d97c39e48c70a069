// A named thread that can always be stopped: Stop() interrupts whatever queue
// or condition it waits on (Boost.Thread interruption points) and joins it. An
// exception that leaves the body goes to the sink with the thread's name.
#ifndef MILLRACE_BASE_THREAD_H_
#define MILLRACE_BASE_THREAD_H_

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include <boost/thread/thread.hpp>

#include "base/error.h"

namespace millrace {

class Thread {
 public:
  // Runs `body` at once. `name` is what debuggers and `top -H` show (the first
  // 15 bytes). `sink` outlives the thread.
  Thread(std::string name, std::function<void()> body, ErrorSink* sink);
  // Stops and joins.
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Asks the body to end at its next interruption point, without waiting.
  void Interrupt();
  // Waits for the body's own end.
  void Join();
  void Stop() {
    Interrupt();
    Join();
  }
  // Processor time that it has used so far, in ns; 0 before it runs, and soon after its end.
  // Thread-safe.
  int64_t cpu_ns() const;

 private:
  std::atomic<clockid_t> cpu_clock_{0};  // its own, once it runs
  boost::thread thread_;
};

// Called by a body that computes for long: throws if the thread is to stop.
inline void InterruptionPoint() { boost::this_thread::interruption_point(); }

}  // namespace millrace

#endif  // MILLRACE_BASE_THREAD_H_
