#include "strategy/local.h"

#include <algorithm>
#include <utility>

#include "base/threads/locked_blocks.h"

namespace millrace::inline strategy {
namespace {

// Elements that are merged within about a microsecond.
constexpr int64_t kBlock = 256;

}  // namespace

LocalStrategy::LocalStrategy(WeightBuffer* shared, LocalConfig config, DeviceWeights* replica)
    : shared_(*shared),
      clock_(shared->clock()),
      solvers_(config.solvers),
      time_(*config.clock),
      has_peers_(std::move(config.has_peers)),
      replica_(replica),
      copy_(replica ? std::optional<ReplicaCopy>(replica) : std::nullopt),
      holder_(&shared->locks()),
      slot_(clock_.RegisterSolver()),
      merger_(
          shared->data(), shared->size(), std::move(config),
          [this](const auto& work) { ForShared(work); }, copy_ ? &*copy_ : nullptr) {
  merger_.Begin(Now(0));
}

LocalStrategy::~LocalStrategy() { clock_.ReleaseSolver(slot_); }

bool LocalStrategy::HasPeers() const {
  return clock_.solvers() > 1 || (has_peers_ && has_peers_());
}

MergeTime LocalStrategy::Now(int completing) const {
  return {.iterations = clock_.global() + completing,
          .seconds = time_.NowSeconds(),
          .solvers = std::max(solvers_, clock_.solvers())};
}

void LocalStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  Write(&rule->queue(), [&] { rule->Apply(rate, together(), gradients, weights()); });
}

void LocalStrategy::Write(Queue* queue, const std::function<void()>& write) {
  if (replica_ == nullptr) return write();
  replica_->order().Write(*queue, write);
}

void LocalStrategy::Complete() {
  if (replica_ != nullptr) replica_->CountIteration();
  merger_.Complete(Now(1));
  clock_.SetUnmerged(slot_, merger_.unmerged());
  clock_.Done(slot_);
}

void LocalStrategy::Flush() {
  merger_.Flush(Now(0));
  clock_.SetUnmerged(slot_, 0);
}

void LocalStrategy::ForShared(const std::function<void(int64_t begin, int64_t count)>& work) {
  for (int64_t begin = 0; begin < shared_.size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, shared_.size() - begin);
    ForLockedBlocks(&holder_, shared_.data(), begin, count, std::cref(work));
  }
}

}  // namespace millrace::inline strategy
