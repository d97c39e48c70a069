// Maps finished transmissions to reclaimable frames, for links that read a frame after Send
// returns. Each accepted frame is complete once a given number of transmissions have finished.
// Frames and transmissions are both counted from 1 in order, so a ring of fixed size suffices.
// Not thread-safe.
#ifndef MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_
#define MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::inline transport {

class CompletionQueue {
 public:
  // Exact while at most `entries` transmissions are unfinished; beyond that, frames are reported
  // complete later than necessary, never earlier.
  explicit CompletionQueue(size_t entries) : entries_(std::bit_ceil(entries)) {}

  // Records one more accepted frame, which is complete once `transmissions` have finished.
  // `transmissions` must not decrease from call to call.
  void Accept(uint64_t transmissions) {
    ++accepted_;
    const bool full = end_ - begin_ == entries_.size();
    if (begin_ == end_ || (!full && At(end_ - 1).transmissions != transmissions)) ++end_;
    At(end_ - 1) = {transmissions, accepted_};
  }

  // `transmissions` have finished in total. Returns the number of complete frames.
  uint64_t Finish(uint64_t transmissions) {
    for (; begin_ != end_ && At(begin_).transmissions <= transmissions; ++begin_) {
      done_ = At(begin_).accepted;
    }
    return done_;
  }

  uint64_t accepted() const { return accepted_; }

 private:
  struct Entry {
    uint64_t transmissions = 0, accepted = 0;
  };
  Entry& At(uint64_t number) { return entries_[number & (entries_.size() - 1)]; }

  std::vector<Entry> entries_;
  uint64_t begin_ = 0, end_ = 0, accepted_ = 0, done_ = 0;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_
