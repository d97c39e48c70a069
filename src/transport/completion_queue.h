// Which accepted frames are the caller's again, where what was sent is read later: each
// accepted frame is done with once a number of transmissions are. Both are counted from 1
// in order, so a ring of a size set when it is made is enough. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_
#define MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

class CompletionQueue {
 public:
  // As exact as it can be while `entries` transmissions at most are unfinished; beyond
  // that frames are given back later.
  explicit CompletionQueue(size_t entries) : entries_(std::bit_ceil(entries)) {}

  // One more frame was accepted; done with once `transmissions` are finished, a number
  // that never falls.
  void Accept(uint64_t transmissions) {
    ++accepted_;
    const bool full = end_ - begin_ == entries_.size();
    if (begin_ == end_ || (!full && At(end_ - 1).transmissions != transmissions)) ++end_;
    At(end_ - 1) = {transmissions, accepted_};
  }

  // So many transmissions are finished. Returns how many frames are done with.
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

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_COMPLETION_QUEUE_H_
