#include "test/support/fake_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "base/error.h"
#include "test/support/fake_graphs.h"

namespace millrace::test {
namespace {

constexpr int kPoison = 0xff;  // makes floats NaN

template <typename Map>
auto BlockAt(const Map& blocks, const void* pointer) {
  auto block = blocks.upper_bound(static_cast<const std::byte*>(pointer));
  return block == blocks.begin() ? blocks.end() : std::prev(block);
}

}  // namespace

void FakeCalls::Count() {
  ++count_;
  ThrowIfFailed();
}

void FakeCalls::ThrowIfFailed() const {
  if (failed()) throw DeviceError(device_, ": an unspecified launch failure");
}

// ---- Memory ----

FakeMemory::~FakeMemory() { EXPECT_EQ(blocks(), 0u) << name_ << " was not freed"; }

void* FakeMemory::Allocate(size_t bytes) {
  FakeRecording::Refuse("memory was allocated");
  Count();
  ++allocations_;
  {
    std::lock_guard lock(mutex_);
    if (bytes > max_bytes_ - bytes_) {
      throw OutOfMemory(name_, ": cannot allocate ", bytes, " bytes");
    }
    bytes_ += bytes;
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t whole = (bytes + page) / page * page;
  const int fd = memfd_create("millrace_test", 0);
  const bool sized = fd >= 0 && whole > bytes && ftruncate(fd, static_cast<off_t>(whole)) == 0;
  void* device = MAP_FAILED;
  void* alias = MAP_FAILED;
  if (sized) {
    device = mmap(nullptr, whole, PROT_NONE, MAP_SHARED, fd, 0);
    alias = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  if (device == MAP_FAILED || alias == MAP_FAILED) {
    if (device != MAP_FAILED) munmap(device, whole);
    std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    throw OutOfMemory(name_, ": cannot allocate ", bytes, " bytes");
  }
  std::memset(alias, kPoison, bytes);
  std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(device)] = {static_cast<std::byte*>(alias), whole, bytes};
  return device;
}

void FakeMemory::Free(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto block = blocks_.extract(static_cast<std::byte*>(pointer));
  bytes_ -= block.mapped().asked;
  munmap(pointer, block.mapped().bytes);
  munmap(block.mapped().alias, block.mapped().bytes);
}

void FakeMemory::Fill(void* pointer, int byte, size_t bytes) {
  Count();
  HostMemory().Fill(Alias(pointer), byte, bytes);
}

void FakeMemory::CopyFromHost(void* destination, const void* host, size_t bytes) {
  FakeRecording::Refuse("a copy");
  Count();
  HostMemory().CopyFromHost(Alias(destination), host, bytes);
}

void FakeMemory::CopyToHost(void* host, const void* source, size_t bytes) {
  FakeRecording::Refuse("a copy");
  Count();
  ++downloads_;
  HostMemory().CopyToHost(host, Alias(source), bytes);
}

size_t FakeMemory::blocks() const {
  std::lock_guard lock(mutex_);
  return blocks_.size();
}

std::byte* FakeMemory::Find(const void* pointer) const {
  std::lock_guard lock(mutex_);
  const auto block = BlockAt(blocks_, pointer);
  if (block == blocks_.end()) return nullptr;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(pointer) - block->first);
  return offset < block->second.bytes ? block->second.alias + offset : nullptr;
}

std::byte* FakeMemory::FindOrThrow(const void* pointer) const {
  std::byte* const alias = Find(pointer);
  if (alias == nullptr) throw Error("a kernel was given memory that is not its device's");
  return alias;
}

void* FakeStaging::Allocate(size_t bytes) {
  ++allocations_;
  {
    std::lock_guard lock(mutex_);
    if (bytes > max_bytes_ - bytes_) {
      throw OutOfMemory(name_, ": cannot allocate ", bytes, " bytes");
    }
    bytes_ += bytes;
  }
  void* pointer = nullptr;
  try {
    pointer = HostMemory().Allocate(bytes);
  } catch (const Error&) {
    std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    throw;
  }
  std::memset(pointer, kPoison, bytes);
  std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(pointer)] = bytes;
  return pointer;
}

void FakeStaging::Free(void* pointer) {
  {
    std::lock_guard lock(mutex_);
    bytes_ -= blocks_.extract(static_cast<std::byte*>(pointer)).mapped();
  }
  HostMemory().Free(pointer);
}

void FakeStaging::Fill(void* pointer, int byte, size_t bytes) {
  HostMemory().Fill(pointer, byte, bytes);
}
void FakeStaging::CopyFromHost(void* destination, const void* host, size_t bytes) {
  HostMemory().CopyFromHost(destination, host, bytes);
}
void FakeStaging::CopyToHost(void* host, const void* source, size_t bytes) {
  HostMemory().CopyToHost(host, source, bytes);
}

void FakeStaging::Require(const void* pointer, size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto block = BlockAt(blocks_, pointer);
  const auto* const begin = static_cast<const std::byte*>(pointer);
  if (block == blocks_.end() || begin + bytes > block->first + block->second) {
    throw Error("a copy was given host memory that is not ", name_);
  }
}

// ---- Queues ----

// What a queue shares with its events, which may outlive it.
class FakeQueue::Core {
 public:
  Core(const std::string& device, const FakeDeviceOptions& options,
       std::shared_ptr<FakeCalls> calls)
      : device_(device), options_(options), calls_(std::move(calls)) {
    if (options.mode == FakeMode::kThread) thread_ = std::thread([this] { RunThread(); });
  }

  void Enqueue(Work work) {
    calls_->Count();
    std::unique_lock lock(mutex_);
    ThrowIfFailed();
    if (enqueued_ == options_.fails_at) failure_ = "an illegal address was met";
    if (!failure_.empty()) return;
    work_.push_back(std::move(work));
    ++enqueued_;
    max_pending_ = std::max(max_pending_, enqueued_ - run_);
    changed_.notify_all();
    if (options_.mode == FakeMode::kAtOnce) RunTo(enqueued_, &lock);
  }
  uint64_t Record() {
    calls_->Count();
    std::lock_guard lock(mutex_);
    ThrowIfFailed();
    return enqueued_;
  }
  bool Done(uint64_t point) {
    calls_->Count();
    std::lock_guard lock(mutex_);
    ThrowIfFailed();
    return run_ >= point;
  }
  void WaitFor(uint64_t point, bool counts) {
    try {
      Reach(point, counts);
      calls_->Count();
    } catch (const DeviceError&) {
      // A device that is said to have failed accesses no memory any more.
      std::unique_lock lock(mutex_);
      while (running_) changed_.wait(lock);
      throw;
    }
  }
  // As WaitFor, for work that waits: no call of the program.
  void Reach(uint64_t point, bool counts) {
    std::unique_lock lock(mutex_);
    waits_ += counts;
    RunTo(point, &lock);
    ThrowIfFailed();
  }
  void WaitForAll() { WaitFor(enqueued(), false); }
  void Advance() {
    std::unique_lock lock(mutex_);
    RunTo(std::min(run_ + 1, enqueued_), &lock);
  }
  void Fail(const std::string& why) {
    std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
  }
  // Runs the rest, unless the device has failed, and ends the thread.
  void End() {
    {
      std::unique_lock lock(mutex_);
      const bool failed = Broken();
      RunTo(enqueued_, &lock);
      if (!failed && !of_another_ && !calls_->failed()) {
        EXPECT_EQ(failure_, "") << "in work that was under way at the end";
      }
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    // Work that is never run may hold events, which hold a Core: this one, too.
    std::deque<Work> dropped;
    std::lock_guard lock(mutex_);
    dropped.swap(work_);
  }

  uint64_t enqueued() const { return Read(&Core::enqueued_); }
  uint64_t run() const { return Read(&Core::run_); }
  uint64_t max_pending() const { return Read(&Core::max_pending_); }
  int waits() const { return Read(&Core::waits_); }

 private:
  template <typename T>
  T Read(T Core::*member) const {
    std::lock_guard lock(mutex_);
    return this->*member;
  }

  // The queue has failed, or the device.
  bool Broken() const { return !failure_.empty() || calls_->failed(); }
  void ThrowIfFailed() const {
    if (!failure_.empty()) throw DeviceError(device_, ": ", failure_);
    calls_->ThrowIfFailed();
  }

  // Returns when `point` has been reached or the device has failed.
  void RunTo(uint64_t point, std::unique_lock<std::mutex>* lock) {
    while (run_ < point && !Broken()) {
      // Queues wait for each other's work, so two threads may be here at the same time.
      if (options_.mode == FakeMode::kThread || running_) {
        changed_.wait(*lock);
      } else {
        RunOne(lock);
      }
    }
  }

  void RunOne(std::unique_lock<std::mutex>* lock) {
    const Work work = std::move(work_.front());
    work_.pop_front();
    running_ = true;
    lock->unlock();
    std::string why;
    try {
      work();
    } catch (const Error& error) {
      why = error.what();
    }
    lock->lock();
    running_ = false;
    // It may be the failure of a queue that the work waited for.
    const bool of_another = why.starts_with(device_ + ": ");
    if (of_another) why.erase(0, device_.size() + 2);
    if (failure_.empty()) failure_ = why, of_another_ = of_another;
    ++run_;
    changed_.notify_all();
  }

  void RunThread() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!ended_ && (work_.empty() || Broken())) {
        if (Broken()) changed_.notify_all();  // those who wait for work that will not run
        changed_.wait(lock);
      }
      if (ended_) return;
      RunOne(&lock);
    }
  }

  const std::string device_;
  const FakeDeviceOptions options_;
  const std::shared_ptr<FakeCalls> calls_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  std::string failure_;
  bool of_another_ = false;  // the failure is that of a queue that work waited for
  uint64_t enqueued_ = 0, run_ = 0, max_pending_ = 0;
  int waits_ = 0;
  bool running_ = false;  // a piece of work
  bool ended_ = false;
  std::thread thread_;
};

class FakeQueue::Point : public Event::State {
 public:
  Point(std::shared_ptr<Core> core, uint64_t at) : core_(std::move(core)), at_(at) {}
  bool Done() override { return core_->Done(at_); }
  void Synchronize() override { core_->WaitFor(at_, true); }
  void Reach() { core_->Reach(at_, true); }

 private:
  const std::shared_ptr<Core> core_;
  const uint64_t at_;
};

FakeQueue::FakeQueue(FakeDevice& device)
    : Queue(device),
      fake_(device),
      core_(std::make_shared<Core>(device.name(), device.options(), device.calls())) {}

FakeQueue::~FakeQueue() { core_->End(); }

FakeQueue& FakeQueue::Of(Queue& queue) {
  if (queue.device().type() != kFakeDevice) throw Error(queue.device().name(), " is no fake");
  return static_cast<FakeQueue&>(queue);
}

void FakeQueue::Enqueue(Work work) {
  if (FakeRecording* const recording = FakeRecording::Current()) {
    if (&recording->queue() != this) FakeRecording::Refuse("work on another queue");
    return recording->Take(std::move(work));
  }
  core_->Enqueue(std::move(work));
}

void FakeQueue::Copy(void* destination, const void* source, size_t bytes) {
  Enqueue([=, this] {
    HostMemory().CopyFromHost(fake_.Alias(destination), fake_.Alias(source), bytes);
  });
}

void FakeQueue::CopyToDevice(void* destination, const void* host, size_t bytes) {
  const bool pageable = fake_.options().copies_pageable;
  if (!pageable) fake_.staging().Require(host, bytes);
  fake_.CountUpload(bytes);
  Enqueue([=, this] {
    if (!pageable) fake_.staging().Require(host, bytes);
    HostMemory().CopyFromHost(fake_.Alias(destination), host, bytes);
  });
  if (pageable) core_->WaitForAll();
}

void FakeQueue::CopyToHost(void* host, const void* source, size_t bytes) {
  const bool pageable = fake_.options().copies_pageable;
  if (!pageable) fake_.staging().Require(host, bytes);
  Enqueue([=, this] {
    if (!pageable) fake_.staging().Require(host, bytes);
    HostMemory().CopyToHost(host, fake_.Alias(source), bytes);
  });
  if (pageable) core_->WaitForAll();
}

void FakeQueue::Fill(void* destination, int byte, size_t bytes) {
  Enqueue([=, this] { HostMemory().Fill(fake_.Alias(destination), byte, bytes); });
}

Event FakeQueue::Record() {
  FakeRecording::Refuse("a mark");
  return Event(std::make_shared<Point>(core_, core_->Record()));
}

void FakeQueue::Wait(const Event& event) {
  FakeRecording::Refuse("a wait");
  auto* const point = dynamic_cast<Point*>(event.state());
  if (point == nullptr) return event.Synchronize();
  Enqueue([event, point] { point->Reach(); });
}

void FakeQueue::Synchronize() {
  FakeRecording::Refuse("a wait");
  core_->WaitForAll();
}
void FakeQueue::Advance() { core_->Advance(); }
void FakeQueue::Fail(const std::string& why) { core_->Fail(why); }
uint64_t FakeQueue::enqueued() const { return core_->enqueued(); }
uint64_t FakeQueue::run() const { return core_->run(); }
uint64_t FakeQueue::max_pending() const { return core_->max_pending(); }
int FakeQueue::waits() const { return core_->waits(); }

FakeDevice::FakeDevice(const FakeDeviceOptions& options)
    : options_(options),
      name_(StrCat("fake device ", options.ordinal)),
      calls_(std::make_shared<FakeCalls>(name_, options.fails_at_call)),
      memory_(name_, calls_, options.memory_bytes),
      staging_("staging memory of " + name_, options.staging_bytes) {}

std::unique_ptr<Queue> FakeDevice::MakeQueue(QueuePriority priority) {
  calls_->Count();
  auto queue = std::make_unique<FakeQueue>(*this);
  std::lock_guard lock(mutex_);
  queues_.push_back(queue.get());
  priorities_.push_back(priority);
  return queue;
}

std::unique_ptr<MemoryMapping> FakeDevice::Map(std::span<const std::byte> memory) {
  std::byte* const address = map ? map(memory) : const_cast<std::byte*>(memory.data());
  return address ? std::make_unique<MemoryMapping>(address) : nullptr;
}

}  // namespace millrace::test
