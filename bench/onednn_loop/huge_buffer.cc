#include "bench/onednn_loop/huge_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace onednn_loop {

void Unmap::operator()(float* start) const { munmap(start, bytes); }

HugeBuffer AllocateHuge(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  bytes = std::max<size_t>(bytes, 64);
  const bool large = bytes >= kHugePage / 2;
  if (large) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // Map more than needed, then trim to an aligned start.
  const size_t span = large ? bytes + kHugePage : bytes;
  void* const mapped =
      mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* start = static_cast<char*>(mapped);
  if (large) {
    const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
    if (skip > 0) munmap(start, skip);
    start += skip;
    if (span - skip > bytes) munmap(start + bytes, span - skip - bytes);
    madvise(start, bytes, MADV_HUGEPAGE);
  }
  return HugeBuffer(reinterpret_cast<float*>(start), Unmap{bytes});
}

}  // namespace onednn_loop
