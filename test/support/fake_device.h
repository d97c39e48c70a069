// Emulates GPU memory without a GPU. Its pages are inaccessible to the processor, so any direct
// access crashes; an emulated stream's kernels access them through an alias.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_
#define MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "device/device.h"

namespace millrace::test {

// Thread-safe. Has to outlive its allocations.
class FakeDevice : public MemorySpace {
 public:
  std::string name() const override { return "fake device 0"; }
  bool on_host() const override { return false; }

  void* Allocate(size_t bytes) override {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t whole = (bytes + page) / page * page;
    const int fd = memfd_create("millrace_test", 0);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(whole)) != 0) throw Error("no memory to play");
    void* const device = mmap(nullptr, whole, PROT_NONE, MAP_SHARED, fd, 0);
    void* const alias = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (device == MAP_FAILED || alias == MAP_FAILED) throw Error("no memory to play");
    std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(device)] = {static_cast<std::byte*>(alias), whole};
    return device;
  }
  void Free(void* pointer) override {
    std::lock_guard lock(mutex_);
    const auto block = blocks_.extract(static_cast<std::byte*>(pointer));
    munmap(block.key(), block.mapped().bytes);
    munmap(block.mapped().alias, block.mapped().bytes);
  }
  void Fill(void* pointer, int byte, size_t bytes) override {
    std::memset(Alias(pointer), byte, bytes);
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    std::memcpy(Alias(to), from, bytes);
  }
  void CopyToHost(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, Alias(from), bytes);
  }

  bool Owns(const void* pointer) const { return Find(pointer) != nullptr; }
  // Address at which kernels, and devices that read this memory, access `pointer`; null for null.
  template <typename T>
  T* Alias(T* pointer) const {
    if (pointer == nullptr) return nullptr;
    std::byte* const alias = Find(pointer);
    if (alias == nullptr) throw Error("a kernel was given memory that is not its device's");
    return reinterpret_cast<T*>(alias);
  }

 private:
  struct Block {
    std::byte* alias;
    size_t bytes;
  };
  std::byte* Find(const void* pointer) const {
    std::lock_guard lock(mutex_);
    auto* const at = static_cast<std::byte*>(const_cast<void*>(pointer));
    auto block = blocks_.upper_bound(at);
    if (block == blocks_.begin()) return nullptr;
    --block;
    const auto offset = static_cast<size_t>(at - block->first);
    return offset < block->second.bytes ? block->second.alias + offset : nullptr;
  }

  mutable std::mutex mutex_;
  std::map<std::byte*, Block> blocks_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_
