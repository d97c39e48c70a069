// Wakes one sleeping thread from any other, with no lost wake-up and, as long as
// nobody sleeps, no system call. The sleeper's pattern:
//
//   const uint32_t heard = bell.Heard();
//   if (!there_is_something()) bell.Sleep(heard, ns);
//
// Whoever makes something there then calls Ring().
#ifndef MILLRACE_TRANSPORT_DOORBELL_H_
#define MILLRACE_TRANSPORT_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace millrace {

class Doorbell {
 public:
  // Any thread.
  void Ring();

  // One thread.
  uint32_t OnFrame() const { return rings_.load(std::memory_order_seq_cst); }
  // Sleeps until somebody has rung since Heard() gave `heard`, or for `ns` real
  // nanoseconds; may return early for no reason.
  void Sleep(uint32_t heard, int64_t ns);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<bool> sleeping_{false};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_DOORBELL_H_
