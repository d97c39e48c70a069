// Emulates a GPU without one. The processor cannot access the pages of its memory, so any direct
// access ends the program; work on its queues accesses them through an alias. Queues run their work
// late, or on a thread of their own.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_
#define MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device.h"

namespace millrace::test {

inline constexpr DeviceType kFakeDevice{1000};

// Counts the calls of a device. The call with the number of FakeDeviceOptions::fails_at_call makes
// the device fail: it and all later calls throw DeviceError. Thread-safe.
class FakeCalls {
 public:
  FakeCalls(const std::string& device, uint64_t fails_at) : device_(device), fails_at_(fails_at) {}
  void Count();
  uint64_t count() const { return count_; }
  bool failed() const { return count_ > fails_at_; }
  void ThrowIfFailed() const;

 private:
  const std::string device_;
  const uint64_t fails_at_;
  std::atomic<uint64_t> count_{0};
};

// Memory that only work on a queue may access. New memory holds NaNs. Thread-safe. Has to outlive
// its allocations.
class FakeMemory : public MemorySpace {
 public:
  // `calls`: of its device; null for memory without one. At most `max_bytes` are allocated at a
  // time.
  explicit FakeMemory(const std::string& name, std::shared_ptr<FakeCalls> calls = nullptr,
                      size_t max_bytes = SIZE_MAX)
      : name_(name), calls_(std::move(calls)), max_bytes_(max_bytes) {}
  ~FakeMemory() override;

  std::string name() const override { return name_; }
  bool on_host() const override { return false; }
  void* Allocate(size_t bytes) override;
  void Free(void* pointer) override;
  void Fill(void* pointer, int byte, size_t bytes) override;
  void CopyFromHost(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;

  bool Owns(const void* pointer) const { return Find(pointer) != nullptr; }
  // Address at which kernels, and devices that read this memory, access `pointer`; null for null.
  // Throws Error if `pointer` is not in memory that is allocated here.
  template <typename T>
  T* Alias(T* pointer) const {
    return pointer ? reinterpret_cast<T*>(FindOrThrow(pointer)) : nullptr;
  }
  size_t blocks() const;
  uint64_t allocations() const { return allocations_; }  // made so far
  uint64_t downloads() const { return downloads_; }      // by CopyToHost so far

 private:
  struct Block {
    std::byte* alias;
    size_t bytes;  // whole pages
    size_t asked;
  };
  void Count() const {
    if (calls_) calls_->Count();
  }
  std::byte* Find(const void* pointer) const;
  std::byte* FindOrThrow(const void* pointer) const;

  const std::string name_;
  const std::shared_ptr<FakeCalls> calls_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  size_t bytes_ = 0;  // as asked for
  std::atomic<uint64_t> allocations_{0}, downloads_{0};
};

// Host memory for copies to and from the device. New memory holds NaNs. Thread-safe.
class FakeStaging : public MemorySpace {
 public:
  // At most `max_bytes` are allocated at a time.
  FakeStaging(const std::string& name, size_t max_bytes) : name_(name), max_bytes_(max_bytes) {}

  std::string name() const override { return name_; }
  void* Allocate(size_t bytes) override;
  void Free(void* pointer) override;
  void Fill(void* pointer, int byte, size_t bytes) override;
  void CopyFromHost(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;

  // Throws Error unless all bytes are in one block that is allocated here.
  void Require(const void* pointer, size_t bytes) const;
  uint64_t allocations() const { return allocations_; }  // made so far

 private:
  const std::string name_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> blocks_;  // sizes
  size_t bytes_ = 0;
  std::atomic<uint64_t> allocations_{0};
};

enum class FakeMode {
  kAtOnce,  // work runs when it is enqueued
  kLate,    // work runs when it is waited for, or when the test says so
  kThread,  // work runs on a thread of the queue
};

class FakeDevice;

// See Queue. A test may call the functions below Enqueue from the thread that uses the queue.
class FakeQueue : public Queue {
 public:
  using Work = std::function<void()>;

  explicit FakeQueue(FakeDevice& device);
  // Runs the work that has not run.
  ~FakeQueue() override;

  // The queue of a fake device that generic code passes as a Queue.
  static FakeQueue& Of(Queue& queue);

  // Enqueues code in place of a kernel. An Error that it throws is a failure of the device.
  void Enqueue(Work work);

  void Copy(void* destination, const void* source, size_t bytes) override;
  void CopyToDevice(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;
  void Fill(void* destination, int byte, size_t bytes) override;
  Event Record() override;
  void Wait(const Event& event) override;
  void Synchronize() override;

  // Runs the oldest work that has not run.
  void Advance();
  // Makes the device fail.
  void Fail(const std::string& why);
  uint64_t enqueued() const;
  uint64_t run() const;
  uint64_t max_pending() const;  // most work that had not run at one time
  int waits() const;             // calls of Event::Synchronize

 private:
  class Core;
  class Point;

  FakeDevice& fake_;
  const std::shared_ptr<Core> core_;
};

struct FakeDeviceOptions {
  FakeMode mode = FakeMode::kAtOnce;
  uint64_t fails_at = UINT64_MAX;  // number from 0 of the work of each queue that breaks the device
  int ordinal = 0;
  uint64_t fails_at_call = UINT64_MAX;  // number from 0 of the call that breaks the device
  size_t memory_bytes = SIZE_MAX, staging_bytes = SIZE_MAX;
  // Queues copy from and to host memory that is not staging memory, too, as slowly as they may.
  bool copies_pageable = false;
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options = {});

  DeviceType type() const override { return kFakeDevice; }
  int ordinal() const override { return options_.ordinal; }
  const std::string& name() const override { return name_; }
  FakeMemory& memory() override { return memory_; }
  FakeStaging& staging() override { return staging_; }
  std::unique_ptr<Queue> MakeQueue(QueuePriority priority) override;
  // By default, kernels access host memory at the host's address.
  std::unique_ptr<MemoryMapping> Map(std::span<const std::byte> memory) override;

  const FakeDeviceOptions& options() const { return options_; }
  const std::shared_ptr<FakeCalls>& calls() const { return calls_; }
  // The queues made so far, which may have ended. Not while another thread makes one.
  const std::vector<FakeQueue*>& queues() const { return queues_; }
  FakeQueue& last_queue() const { return *queues_.back(); }
  const std::vector<QueuePriority>& priorities() const { return priorities_; }

  // Copies by queues from the host to the device so far.
  uint64_t uploads() const { return uploads_; }
  uint64_t uploaded_bytes() const { return uploaded_bytes_; }
  void CountUpload(size_t bytes) { ++uploads_, uploaded_bytes_ += bytes; }

  bool Owns(const void* pointer) const { return memory_.Owns(pointer); }
  template <typename T>
  T* Alias(T* pointer) const {
    return memory_.Alias(pointer);
  }

  // Replaces the address by which kernels access host memory; null if they cannot.
  std::function<std::byte*(std::span<const std::byte> memory)> map;

 private:
  const FakeDeviceOptions options_;
  const std::string name_;
  const std::shared_ptr<FakeCalls> calls_;
  FakeMemory memory_;
  FakeStaging staging_;
  std::atomic<uint64_t> uploads_{0}, uploaded_bytes_{0};
  std::mutex mutex_;  // held while a queue is added
  std::vector<FakeQueue*> queues_;
  std::vector<QueuePriority> priorities_;
};

// Enqueues body(pointers...) in place of a kernel. The pointers are into the memory of the queue's
// device; the body receives them as addresses that it can access.
template <typename Body, typename... Pointers>
void EnqueueKernel(Queue& queue, Body body, Pointers... pointers) {
  const auto& device = static_cast<const FakeDevice&>(FakeQueue::Of(queue).device());
  FakeQueue::Of(queue).Enqueue([=, &device] { body(device.Alias(pointers)...); });
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_DEVICE_H_
