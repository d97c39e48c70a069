#include "transport/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace millrace::inline transport {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == 4, "the kernel takes it for a plain word");

long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr,
                 0);
}

}  // namespace

// Either the sleeper's store to sleeping_ precedes the load here, and Ring wakes it; or the
// increment precedes the kernel's comparison of the word, and the sleeper does not sleep. This
// requires a total order of all four operations: seq_cst.
void Doorbell::Ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) Futex(&rings_, FUTEX_WAKE_PRIVATE, 1, nullptr);
}

void Doorbell::Sleep(uint32_t rings, int64_t ns) {
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  sleeping_.store(true, std::memory_order_seq_cst);
  Futex(&rings_, FUTEX_WAIT_PRIVATE, rings, &timeout);
  sleeping_.store(false, std::memory_order_seq_cst);
}

}  // namespace millrace::inline transport
