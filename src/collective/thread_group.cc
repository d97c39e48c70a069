#include "collective/thread_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace millrace::inline collective {
namespace {

// Adds in the order of the threads, so that the result does not depend on who computes it.
void AddParts(const std::vector<float*>& parts, int64_t count) {
  float* const sum = parts[0];
  for (size_t thread = 1; thread < parts.size(); ++thread) {
    const float* const part = parts[thread];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += part[i];
  }
}

}  // namespace

class ThreadGroup::Member : public Collective {
 public:
  Member(ThreadGroup* group, int thread) : group_(*group), thread_(thread) {}

  int rank() const override {
    return thread_ + group_.threads_ * (group_.between_ ? group_.between_->rank() : 0);
  }
  int size() const override {
    return group_.threads_ * (group_.between_ ? group_.between_->size() : 1);
  }
  bool leads_process() const override { return thread_ == 0; }

  void Broadcast(std::span<std::byte> bytes, const std::function<void()>& check) override {
    if (thread_ == 0) {
      if (group_.has_peers()) group_.between_->Broadcast(bytes, CheckOf(check));
      group_.broadcast_ = bytes;
    }
    group_.barrier_.Wait();
    if (thread_ != 0) std::copy(group_.broadcast_.begin(), group_.broadcast_.end(), bytes.begin());
    group_.barrier_.Wait();
  }

  void StartSum(std::span<float> values, bool wants_result) override {
    if (wants_result && thread_ != 0) {
      wanted_.resize(started_);
      wanted_.push_back(values);
    }
    group_.Start(thread_, round_, started_++, values);
  }
  void Poll() override {
    group_.barrier_.ThrowIfPoisoned();
    if (!group_.has_peers()) return;
    // Another thread that holds the lock makes the progress.
    const std::unique_lock lock(group_.mutex_, std::try_to_lock);
    if (lock) group_.between_->Poll();
  }
  void Wait(const std::function<void()>& check) override {
    group_.Finish(thread_, round_++, wanted_, CheckOf(check));
    started_ = 0;
    wanted_.clear();
  }

 private:
  std::function<void()> CheckOf(const std::function<void()>& check) const {
    return [this, check] {
      group_.barrier_.ThrowIfPoisoned();
      if (check) check();
    };
  }

  ThreadGroup& group_;
  const int thread_;
  uint64_t round_ = 0;
  size_t started_ = 0;                    // in this round
  std::vector<std::span<float>> wanted_;  // by sum; empty: the result is not wanted
};

ThreadGroup::ThreadGroup(int threads, Collective* between)
    : threads_(threads), between_(between), barrier_(threads) {
  for (int i = 0; i < threads; ++i) members_.push_back(std::make_unique<Member>(this, i));
}

ThreadGroup::~ThreadGroup() = default;

Collective& ThreadGroup::member(int index) const { return *members_[index]; }

void ThreadGroup::Start(int thread, uint64_t round_number, size_t number, std::span<float> values) {
  barrier_.ThrowIfPoisoned();
  Round& round = rounds_[round_number % 2];
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    if (number == round.sums.size()) {
      round.sums.emplace_back();
      round.sums.back().parts.resize(threads_);
      round.sums.back().count = static_cast<int64_t>(values.size());
    }
    Sum& sum = round.sums[number];
    if (sum.count != static_cast<int64_t>(values.size())) {
      throw Error("the solvers of this process sum ", sum.count, " and ", values.size(),
                  " values, expected equal numbers");
    }
    sum.parts[thread] = values.data();
    is_last = ++sum.arrived == threads_;
  }
  // Without other processes, all threads add in Wait.
  if (is_last && has_peers()) AddReady(&round);
}

void ThreadGroup::AddReady(Round* round) {
  std::unique_lock lock(mutex_);
  // Every thread starts its sums in order, so that they become ready in order.
  while (round->taken < round->sums.size() && round->sums[round->taken].arrived == threads_) {
    Sum& sum = round->sums[round->taken++];  // a deque: others may add sums behind it
    lock.unlock();
    AddParts(sum.parts, sum.count);
    lock.lock();
    sum.added = true;
    if (!has_peers()) continue;
    // In the same order in every process.
    while (round->started < round->taken && round->sums[round->started].added) {
      const Sum& next = round->sums[round->started++];
      between_->StartSum({next.parts[0], static_cast<size_t>(next.count)});
    }
  }
}

void ThreadGroup::Finish(int thread, uint64_t round_number,
                         const std::vector<std::span<float>>& wanted,
                         const std::function<void()>& check) {
  Round& round = rounds_[round_number % 2];
  barrier_.Wait();  // all have started all sums, and have read all results of the round before
  if (thread == 0) rounds_[(round_number + 1) % 2] = {};
  AddReady(&round);
  barrier_.Wait();  // all are added
  if (has_peers()) {
    if (thread == 0) between_->Wait(check);
    barrier_.Wait();
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Sum& sum = round.sums[i];
    if (!wanted[i].empty()) std::copy_n(sum.parts[0], sum.count, wanted[i].data());
  }
  // parts[0] belongs to thread 0 from here on.
  if (threads_ > 1) barrier_.Wait();
}

}  // namespace millrace::inline collective
