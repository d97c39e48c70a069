// Host memory and the CPU as a device.
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/cache_line.h"
#include "base/error.h"
#include "device/device.h"

namespace millrace {
namespace {

// Large blocks use transparent huge pages: fewer TLB misses in passes over a whole weight array.
constexpr size_t kHugePage = size_t{2} << 20;

class Host : public MemorySpace {
 public:
  void* Allocate(size_t bytes) override {
    const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
    void* pointer = nullptr;
    const size_t rounded = (bytes + alignment) / alignment * alignment;
    if (rounded > bytes) pointer = std::aligned_alloc(alignment, rounded);  // else it overflowed
    if (!pointer) throw Error("out of memory: cannot allocate ", bytes, " bytes");
    if (alignment == kHugePage) madvise(pointer, rounded, MADV_HUGEPAGE);
    return pointer;
  }
  void Free(void* pointer) override { std::free(pointer); }
  void Fill(void* pointer, int byte, size_t bytes) override { memset(pointer, byte, bytes); }
  void CopyFromHost(void* destination, const void* host, size_t bytes) override {
    memcpy(destination, host, bytes);
  }
  void CopyToHost(void* host, const void* source, size_t bytes) override {
    memcpy(host, source, bytes);
  }
};

class CpuDriver : public DeviceDriver {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }
  std::vector<DeviceInfo> List() override {
    struct sysinfo info {};
    sysinfo(&info);
    return {{DeviceType::kCpu, 0, StrCat(std::thread::hardware_concurrency(), " cores"),
             static_cast<size_t>(info.totalram) * info.mem_unit}};
  }
  MemorySpace& Memory(int ordinal) override {
    if (ordinal != 0) throw Error("cpu device ", ordinal, " does not exist; the host is cpu 0");
    return HostMemory();
  }
  MemorySpace& Staging(int ordinal) override { return Memory(ordinal); }
};

const RegisterDevice registered(std::make_unique<CpuDriver>());

}  // namespace

MemorySpace& HostMemory() {
  static Host host;
  return host;
}

}  // namespace millrace
