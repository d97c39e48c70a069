// Wakes one sleeping thread from any other thread. No wake-up is lost, and no system call is made
// while nobody sleeps. The sleeper's pattern:
//
//   const uint32_t rings = bell.rings();
//   if (!there_is_something()) bell.Sleep(rings, ns);
//
// A producer calls Ring() after it has made something available.
#ifndef MILLRACE_TRANSPORT_DOORBELL_H_
#define MILLRACE_TRANSPORT_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace millrace::inline transport {

class Doorbell {
 public:
  // Any thread.
  void Ring();

  // Number of rings so far. Sleeping thread only.
  uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }
  // Sleeps until Ring() is called after the rings() call that returned `rings`, for at most
  // `ns` real nanoseconds. May wake spuriously. Sleeping thread only.
  void Sleep(uint32_t rings, int64_t ns);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<bool> sleeping_{false};
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_DOORBELL_H_
