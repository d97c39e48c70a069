#include "strategy/local_merger.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "device/atomic_update.h"
#include "millrace/device.h"

namespace millrace::inline strategy {

LocalMerger::LocalMerger(float* shared, int64_t size, MergerConfig config, Blocks blocks,
                         DeviceCopy* device)
    : shared_(shared),
      size_(size),
      config_(std::move(config)),
      blocks_(std::move(blocks)),
      device_(device),
      conditions_read_(config_.conditions.ReadsWeights()),
      weights_(device ? device->staging() : HostDevice().memory(), size * sizeof(float)),
      base_(HostDevice().memory(), size * sizeof(float)) {
  Clear();
}

void LocalMerger::Clear() {
  std::fill_n(weights_.get<float>(), size_, 0.0f);
  std::fill_n(base_.get<float>(), size_, 0.0f);
}

void LocalMerger::Begin(const MergeTime& now) {
  merged_ = now;
  Clear();  // else a fetch would keep the old weights as progress
  Fetch();
}

void LocalMerger::ReadDevice() {
  if (!current_) device_->Read(weights());
  current_ = true;
}

void LocalMerger::WriteDevice() {
  if (device_ != nullptr) device_->Write(weights());
}

SyncState LocalMerger::StateAt(const MergeTime& now) const {
  const auto size = current_ ? static_cast<size_t>(size_) : 0;
  return {.iterations = since_merge_,
          .shared_iterations = now.iterations - merged_.iterations,
          .seconds = now.seconds - merged_.seconds,
          .weights = {weights_.get<float>(), size},
          .base = {base_.get<float>(), size}};
}

void LocalMerger::Complete(const MergeTime& now) {
  ++since_merge_, ++since_push_, ++since_fetch_;
  current_ = device_ == nullptr;
  if (conditions_read_) ReadDevice();
  const SyncState state = StateAt(now);
  if (config_.conditions.Fires(state)) {
    config_.conditions.Merging(state);
    Merge(now);
    return;
  }
  if (config_.push > 0 && since_push_ >= config_.push) Push(now);
  if (config_.fetch > 0 && since_fetch_ >= config_.fetch) Fetch();
}

void LocalMerger::Flush(const MergeTime& now) {
  ReadDevice();
  config_.conditions.Merging(StateAt(now));
  Merge(now);
}

void LocalMerger::ExportState(SolverPart* part) const {
  config_.conditions.Export(part);
  // With the other rules, the weights are the shared ones.
  if (config_.rule != MergeSettings::Rule::kElastic) return;
  AddArray("weights", {weights(), static_cast<size_t>(size_)}, part);
}

void LocalMerger::RestoreState(const StateReader& stored) {
  config_.conditions.Restore(stored);
  if (config_.rule != MergeSettings::Rule::kElastic) return;
  const std::span<const float> own = stored.Array("weights", static_cast<size_t>(size_));
  std::copy(own.begin(), own.end(), weights());
  std::copy(own.begin(), own.end(), base_.get<float>());
  WriteDevice();
}

void LocalMerger::Merge(const MergeTime& now) {
  if (config_.rule == MergeSettings::Rule::kElastic) {
    ReadDevice();
    blocks_([&](int64_t begin, int64_t count) {
      HogwildUpdateElastic(static_cast<float>(config_.pull), count, shared_ + begin,
                           weights() + begin, base_.get<float>() + begin);
    });
    WriteDevice();
  } else {
    Push(now);
    Fetch();
  }
  since_merge_ = since_push_ = 0;
  merged_ = now;
}

void LocalMerger::Push(const MergeTime& now) {
  ReadDevice();
  since_push_ = 0;
  float share = 1;
  if (config_.rule == MergeSettings::Rule::kAverage) {
    // Solvers that have ended have given their share.
    solvers_ = std::max(solvers_, now.solvers);
    share = static_cast<float>(config_.share > 0 ? config_.share : 1.0 / solvers_);
  }
  blocks_([&](int64_t begin, int64_t count) {
    HogwildUpdatePush(share, count, shared_ + begin, weights() + begin, base_.get<float>() + begin);
  });
}

void LocalMerger::Fetch() {
  ReadDevice();
  since_fetch_ = 0;
  blocks_([&](int64_t begin, int64_t count) {
    HogwildUpdateFetch(count, shared_ + begin, weights() + begin, base_.get<float>() + begin);
  });
  WriteDevice();
}

void HogwildUpdatePush(float share, int64_t count, float* shared, const float* weights,
                       float* base) {
  for (int64_t i = 0; i < count; ++i) {
    const float progress = weights[i] - base[i];
    if (progress == 0) continue;
    const std::atomic_ref<float> value(shared[i]);
    float seen = base[i];
    const bool alone =
        share == 1 && value.compare_exchange_strong(seen, weights[i], std::memory_order_relaxed);
    if (!alone) value.fetch_add(share * progress, std::memory_order_relaxed);
    base[i] = weights[i];
  }
}

void HogwildUpdateFetch(int64_t count, float* shared, float* weights, float* base) {
  for (int64_t i = 0; i < count; ++i) {
    const float fetched = AtomicLoad(shared + i);
    // If the shared weight is the base, w stays as it is, without rounding.
    if (fetched == base[i]) continue;
    const float progress = weights[i] - base[i];
    weights[i] = fetched + progress;
    base[i] = fetched;
  }
}

void HogwildUpdateElastic(float pull, int64_t count, float* shared, float* weights, float* base) {
  for (int64_t i = 0; i < count; ++i) {
    const float difference = pull * (weights[i] - AtomicLoad(shared + i));
    if (difference != 0) {
      std::atomic_ref<float>(shared[i]).fetch_add(difference, std::memory_order_relaxed);
      weights[i] -= difference;
    }
    base[i] = weights[i];
  }
}

}  // namespace millrace::inline strategy
