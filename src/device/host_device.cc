// The host as a device: its memory, and a queue that completes each call at once.
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/threads/cache_line.h"
#include "millrace/device.h"

namespace millrace {
namespace {

// Large blocks use transparent huge pages: fewer TLB misses in passes over a whole weight array.
constexpr size_t kHugePage = size_t{2} << 20;

// As memcpy and memset, but pointers may be null if there are no bytes.
void CopyBytes(void* destination, const void* source, size_t bytes) {
  if (bytes > 0) memcpy(destination, source, bytes);
}
void FillBytes(void* destination, int byte, size_t bytes) {
  if (bytes > 0) memset(destination, byte, bytes);
}

class Host : public MemorySpace {
 public:
  void* Allocate(size_t bytes) override {
    const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
    void* pointer = nullptr;
    const size_t rounded = (bytes + alignment) / alignment * alignment;
    if (rounded > bytes) pointer = std::aligned_alloc(alignment, rounded);  // else it overflowed
    if (!pointer) throw OutOfMemory("out of memory: cannot allocate ", bytes, " bytes");
    if (alignment == kHugePage) madvise(pointer, rounded, MADV_HUGEPAGE);
    return pointer;
  }
  void Free(void* pointer) override { std::free(pointer); }
  void Fill(void* pointer, int byte, size_t bytes) override { FillBytes(pointer, byte, bytes); }
  void CopyFromHost(void* destination, const void* host, size_t bytes) override {
    CopyBytes(destination, host, bytes);
  }
  void CopyToHost(void* host, const void* source, size_t bytes) override {
    CopyBytes(host, source, bytes);
  }
};

class HostQueueImpl final : public Queue {
 public:
  using Queue::Queue;
  void Copy(void* destination, const void* source, size_t bytes) override {
    CopyBytes(destination, source, bytes);
  }
  void CopyToDevice(void* destination, const void* host, size_t bytes) override {
    CopyBytes(destination, host, bytes);
  }
  void CopyToHost(void* host, const void* source, size_t bytes) override {
    CopyBytes(host, source, bytes);
  }
  void Fill(void* destination, int byte, size_t bytes) override {
    FillBytes(destination, byte, bytes);
  }
  Event Record() override { return Event(); }
  void Wait(const Event& event) override { event.Synchronize(); }
  void Synchronize() override {}
};

class Cpu final : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }
  int ordinal() const override { return 0; }
  const std::string& name() const override { return name_; }
  MemorySpace& memory() override { return HostMemory(); }
  MemorySpace& staging() override { return HostMemory(); }
  std::unique_ptr<Queue> MakeQueue(QueuePriority) override {
    return std::make_unique<HostQueueImpl>(*this);
  }
  std::unique_ptr<MemoryMapping> Map(std::span<const std::byte> memory) override {
    return std::make_unique<MemoryMapping>(const_cast<std::byte*>(memory.data()));
  }

 private:
  const std::string name_ = "cpu";
};

class CpuDriver final : public DeviceDriver {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }
  const char* type_name() const override { return "cpu"; }
  std::vector<DeviceInfo> List() override {
    struct sysinfo info {};
    sysinfo(&info);
    return {{DeviceType::kCpu, 0, StrCat(std::thread::hardware_concurrency(), " cores"),
             static_cast<size_t>(info.totalram) * info.mem_unit}};
  }
  Device& Open(int ordinal) override {
    if (ordinal != 0) throw Error("cpu device ", ordinal, " does not exist; the host is cpu 0");
    return HostDevice();
  }
};

const RegisterDevice host_device(std::make_unique<CpuDriver>());

}  // namespace

MemorySpace& HostMemory() {
  static Host host;
  return host;
}

Device& HostDevice() {
  static Cpu cpu;
  return cpu;
}

Queue& HostQueue() {
  static HostQueueImpl queue(HostDevice());
  return queue;
}

}  // namespace millrace
