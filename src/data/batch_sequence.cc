#include "data/batch_sequence.h"

#include <glog/logging.h>

#include <algorithm>
#include <random>

#include "data/batch_source.h"

namespace millrace::inline data {
namespace {

uint64_t DrawId() {
  std::random_device random;
  return kFirstSequenceId | uint64_t{random()} << 32 | random();
}

}  // namespace

BatchSequence::BatchSequence(int nets) : nets_(nets), id_(DrawId()) {}

uint64_t BatchSequence::FirstPass(int net) const {
  const auto found = draws_.find(net);
  return found == draws_.end() ? 0 : found->second.first;
}

uint64_t BatchSequence::StepOf(int net, uint64_t pass) {
  if (nets_ > 0) {
    const uint64_t step = pass * nets_ + net;
    OnDrawn(step);
    return step;
  }
  Draws& draws = draws_[net];
  CHECK_GE(pass, draws.first);
  const uint64_t index = pass - draws.first;
  CHECK_LE(index, draws.waiting.size());
  if (index == draws.waiting.size()) {
    draws.waiting.push_back({drawn_});
    OnDrawn(drawn_);
  }
  return draws.waiting[index].step;
}

void BatchSequence::OnDrawn(uint64_t step) {
  for (; drawn_ <= step; ++drawn_) unconsumed_.insert(NumberOf(drawn_));
}

void BatchSequence::OnTaken(int net, uint64_t pass) {
  if (nets_ > 0) return;
  Draws& draws = draws_[net];
  ++draws.waiting[pass - draws.first].taken;
  while (!draws.waiting.empty() && draws.waiting.front().taken >= streams_) {
    draws.waiting.pop_front();
    ++draws.first;
  }
}

void BatchSequence::OnBegun(uint64_t step) { begun_ = std::max(begun_, step + 1); }

uint64_t BatchSequence::FirstUnread() const {
  return first_batch_ + (begun_ > repeated_.size() ? begun_ - repeated_.size() : 0);
}

BatchSequence::Position BatchSequence::GetPosition() const {
  Position position{NumberOf(std::max<uint64_t>(drawn_, repeated_.size())), unconsumed_};
  // Batches drawn last and not trained on are simply the next ones.
  while (!position.outstanding.empty() &&
         *position.outstanding.rbegin() + 1 == position.next_batch) {
    position.outstanding.erase(--position.next_batch);
  }
  return position;
}

uint64_t BatchSequence::Oldest() const {
  const uint64_t next = NumberOf(drawn_);
  return unconsumed_.empty() ? next : std::min(next, *unconsumed_.begin());
}

void BatchSequence::Restore(const Position& position) {
  CHECK_EQ(drawn_, 0u);
  first_batch_ = restored_ ? std::min(first_batch_, position.next_batch) : position.next_batch;
  restored_ = true;
  unconsumed_.insert(position.outstanding.begin(), position.outstanding.end());
  unconsumed_.erase(unconsumed_.lower_bound(first_batch_), unconsumed_.end());
  repeated_.assign(unconsumed_.begin(), unconsumed_.end());
}

void BatchSequence::Seek(uint64_t number) {
  repeated_.clear();
  first_batch_ = number;
  drawn_ = begun_ = 0;
  unconsumed_.clear();
  draws_.clear();
  seeks_.fetch_add(1, std::memory_order_release);
}

}  // namespace millrace::inline data
