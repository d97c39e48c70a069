// The CRC instruction of x86 processors.
#include <cpuid.h>

#include <cstring>

#include "base/crc32c.h"

namespace millrace::inline base {
namespace {

// Detects QEMU without KVM (TCG) by its signature in the hypervisor CPUID leaf.
bool IsEmulated() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kHypervisor = 1u << 31;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & kHypervisor)) return false;
  __cpuid(0x40000000, eax, ebx, ecx, edx);
  const unsigned name[] = {ebx, ecx, edx};
  return std::memcmp(name, "TCGTCGTCGTCG", sizeof(name)) == 0;
}

}  // namespace

const bool crc32c::instruction_pays = __builtin_cpu_supports("sse4.2") && !IsEmulated();

}  // namespace millrace::inline base
