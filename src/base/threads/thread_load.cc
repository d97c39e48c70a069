#include "base/threads/thread_load.h"

#include <fcntl.h>

#include <charconv>

namespace millrace::inline base {

bool ThreadLoad::ReadTimes(int fd, ThreadTimes* times) {
  char text[96];
  const ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
  if (length <= 0) return false;
  const char* const end = text + length;
  const auto cpu = std::from_chars(text, end, times->cpu_ns);
  if (cpu.ec != std::errc() || cpu.ptr == end || *cpu.ptr != ' ') return false;
  return std::from_chars(cpu.ptr + 1, end, times->waiting_ns).ec == std::errc();
}

ThreadLoad::Member::Member(ThreadLoad* load)
    : load_(*load), schedstat_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {
  ReadTimes(schedstat_.get(), &joined_);
  read_ = joined_;
  std::lock_guard lock(load_.mutex_);
  place_ = load_.members_.insert(load_.members_.end(), this);
}

ThreadLoad::Member::~Member() {
  std::lock_guard lock(load_.mutex_);
  load_.members_.erase(place_);
  AddTo(&load_.left_);
}

void ThreadLoad::Member::AddTo(ThreadTimes* times) {
  ThreadTimes now;
  if (ReadTimes(schedstat_.get(), &now)) read_ = now;
  times->cpu_ns += read_.cpu_ns - joined_.cpu_ns;
  times->waiting_ns += read_.waiting_ns - joined_.waiting_ns;
}

ThreadTimes ThreadLoad::Read() const {
  std::lock_guard lock(mutex_);
  ThreadTimes all = left_;
  for (Member* member : members_) member->AddTo(&all);
  return all;
}

int ThreadLoad::threads() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(members_.size());
}

}  // namespace millrace::inline base
