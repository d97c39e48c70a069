#include "base/threads/thread.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/clock.h"

namespace millrace::inline base {

Thread::Thread(std::string name, std::function<void()> body, ErrorSink* sink)
    : thread_([this, name = std::move(name), body = std::move(body), sink] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        clockid_t clock = 0;
        if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock_ = clock;
        try {
          body();
        } catch (const boost::thread_interrupted&) {
          // Stopped on request.
        } catch (...) {
          sink->Report(std::current_exception());
        }
      }) {}

Thread::~Thread() { Stop(); }

void Thread::Interrupt() { thread_.interrupt(); }

int64_t Thread::cpu_ns() const {
  const clockid_t clock = cpu_clock_;
  return clock == 0 ? 0 : PosixClockNs(clock);
}

void Thread::Join() {
  // An interruption of the calling thread must not abort the join.
  boost::this_thread::disable_interruption no_interruption;
  if (thread_.joinable()) thread_.join();
}

bool RunBeforeOthers() {
  constexpr int kAhead = 10;
  // Affects only the calling thread: on Linux every thread has its own nice value.
  return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - kAhead) == 0;
}

}  // namespace millrace::inline base
