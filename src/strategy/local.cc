#include "strategy/local.h"

#include <algorithm>
#include <utility>

#include "base/locked_blocks.h"
#include "millrace/device.h"
#include "strategy/local_merge.h"

namespace millrace::inline strategy {
namespace {

// Elements that are merged within about a microsecond.
constexpr int64_t kBlock = 256;

}  // namespace

LocalStrategy::LocalStrategy(WeightBuffer* shared, LocalConfig config)
    : shared_(*shared),
      clock_(shared->clock()),
      config_(std::move(config)),
      holder_(&shared->locks()),
      slot_(clock_.RegisterSolver()),
      weights_(HostDevice().memory(), shared->size() * sizeof(float)),
      base_(HostDevice().memory(), shared->size() * sizeof(float)),
      solvers_(config_.solvers),
      merged_global_(clock_.global()),
      merged_seconds_(config_.clock->NowSeconds()) {
  std::fill_n(weights_.get<float>(), shared->size(), 0.0f);
  std::fill_n(base_.get<float>(), shared->size(), 0.0f);
  Fetch();
}

LocalStrategy::~LocalStrategy() { clock_.ReleaseSolver(slot_); }

bool LocalStrategy::HasPeers() const {
  return clock_.solvers() > 1 || (config_.has_peers && config_.has_peers());
}

// Additive progress of all solvers adds up, so that momentum has to look ahead as in Hogwild. The
// other rules take the mean of solvers that each see fresh weights.
void LocalStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  const bool together = config_.rule == LocalConfig::Rule::kAdditive && HasPeers();
  rule->Apply(rate, together, gradients, weights());
}

SyncState LocalStrategy::State() const {
  const auto size = static_cast<size_t>(shared_.size());
  return {.iterations = since_merge_,
          .shared_iterations = clock_.global() - merged_global_,
          .seconds = config_.clock->NowSeconds() - merged_seconds_,
          .weights = {weights_.get<float>(), size},
          .base = {base_.get<float>(), size}};
}

void LocalStrategy::Complete() {
  ++since_merge_, ++since_push_, ++since_fetch_;
  SyncState state = State();
  ++state.shared_iterations;  // the one that completes
  if (config_.conditions.Fires(state)) {
    config_.conditions.Merging(state);
    Merge();
    ++merged_global_;
  } else {
    if (config_.push > 0 && since_push_ >= config_.push) Push();
    if (config_.fetch > 0 && since_fetch_ >= config_.fetch) Fetch();
  }
  clock_.SetUnmerged(slot_, since_push_);
  clock_.Done(slot_);
}

void LocalStrategy::Flush() {
  config_.conditions.Merging(State());
  Merge();
  clock_.SetUnmerged(slot_, 0);
}

void LocalStrategy::Merge() {
  if (config_.rule == LocalConfig::Rule::kElastic) {
    ForShared([&](int64_t begin, int64_t count) {
      HogwildUpdateElastic(static_cast<float>(config_.pull), count, shared_.data() + begin,
                           weights() + begin, base_.get<float>() + begin);
    });
  } else {
    Push();
    Fetch();
  }
  since_merge_ = since_push_ = 0;
  merged_global_ = clock_.global();
  merged_seconds_ = config_.clock->NowSeconds();
}

void LocalStrategy::Push() {
  since_push_ = 0;
  float share = 1;
  if (config_.rule == LocalConfig::Rule::kAverage) {
    // Solvers that have ended have given their share.
    solvers_ = std::max(solvers_, clock_.solvers());
    share = static_cast<float>(config_.share > 0 ? config_.share : 1.0 / solvers_);
  }
  ForShared([&](int64_t begin, int64_t count) {
    HogwildUpdatePush(share, count, shared_.data() + begin, weights() + begin,
                      base_.get<float>() + begin);
  });
}

void LocalStrategy::Fetch() {
  since_fetch_ = 0;
  ForShared([&](int64_t begin, int64_t count) {
    HogwildUpdateFetch(count, shared_.data() + begin, weights() + begin,
                       base_.get<float>() + begin);
  });
}

template <typename Work>
void LocalStrategy::ForShared(Work work) {
  for (int64_t begin = 0; begin < shared_.size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, shared_.size() - begin);
    ForLockedBlocks(&holder_, shared_.data(), begin, count, work);
  }
}

}  // namespace millrace::inline strategy
