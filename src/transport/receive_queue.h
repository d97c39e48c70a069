// Received frames: first waiting for Receive, then lent to the caller. A ring of descriptors of
// fixed size. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_RECEIVE_QUEUE_H_
#define MILLRACE_TRANSPORT_RECEIVE_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::inline transport {

class ReceiveQueue {
 public:
  struct Entry {
    std::span<const std::byte> bytes;
    uint64_t position = 0;  // of the buffer that holds `bytes`
    size_t peer = 0;
    bool to_all = false;
  };

  explicit ReceiveQueue(size_t frames) : entries_(std::bit_ceil(frames)) {}

  bool full() const { return end_ - released_ == entries_.size(); }
  bool waiting() const { return end_ != taken_; }

  void Put(const Entry& entry) { At(end_++) = entry; }  // requires !full()
  const Entry& Take() { return At(taken_++); }          // requires waiting()
  const Entry& Next() { return At(taken_); }            // requires waiting()
  // Calls done(entry) for each lent entry and removes it.
  template <typename Done>
  void Release(Done done) {
    for (; released_ != taken_; ++released_) done(At(released_));
  }

 private:
  Entry& At(uint64_t number) { return entries_[number & (entries_.size() - 1)]; }

  std::vector<Entry> entries_;
  uint64_t end_ = 0, taken_ = 0, released_ = 0;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_RECEIVE_QUEUE_H_
