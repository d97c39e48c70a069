// The pointers of a kernel (device/kernel.h), which fake devices check and replace. Kernels do not
// list them: each of the kernel's words that is an address of mapped memory counts as one.
#ifndef MILLRACE_TEST_SUPPORT_KERNEL_POINTERS_H_
#define MILLRACE_TEST_SUPPORT_KERNEL_POINTERS_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace millrace::test {

// Whether this process has a page at the address.
inline bool IsMapped(uintptr_t address) {
  if (address >> 47 != 0 || address >> 32 == 0) return false;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

// Replaces each pointer of the kernel by visit(pointer), a std::byte*.
template <typename Kernel, typename Visit>
void ReplacePointers(Kernel* kernel, Visit visit) {
  static_assert(std::is_trivially_copyable_v<Kernel>, "a launch copies the bytes of a kernel");
  __builtin_clear_padding(kernel);  // may hold what were addresses
  constexpr size_t kWord = sizeof(void*);
  auto* const bytes = reinterpret_cast<std::byte*>(kernel);
  for (size_t at = 0; at + kWord <= sizeof(Kernel); at += kWord) {
    uintptr_t word = 0;
    std::memcpy(&word, bytes + at, kWord);
    if (!IsMapped(word)) continue;
    std::byte* const replaced = visit(reinterpret_cast<std::byte*>(word));
    std::memcpy(bytes + at, &replaced, kWord);
  }
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_KERNEL_POINTERS_H_
