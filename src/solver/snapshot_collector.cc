#include "solver/snapshot_collector.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline solver {

SnapshotCollector::SnapshotCollector(int solvers) : left_(solvers) {}

std::optional<Snapshot> SnapshotCollector::Open(Snapshot start) {
  std::lock_guard lock(mutex_);
  if (start.iteration <= last_collected_) return std::nullopt;
  if (open_ && open_->iteration == start.iteration) return std::nullopt;
  start.histories.clear();
  start.parts.clear();
  for (const Deposited& left : left_) {
    start.histories.push_back(left.history);
    start.parts.push_back(left.part);
  }
  std::optional<Snapshot> overtaken;
  if (open_) {
    if (open_->iteration > start.iteration) std::swap(*open_, start);
    overtaken = std::exchange(open_, std::move(start));
  } else {
    open_ = std::move(start);
    any_open_ = true;
  }
  if (!overtaken) return TakeIfComplete();
  return overtaken;
}

bool SnapshotCollector::WantsLocked(int solver) const { return open_ && !open_->histories[solver]; }

bool SnapshotCollector::Wants(int solver) const {
  if (!any_open_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  return WantsLocked(solver);
}

std::optional<Snapshot> SnapshotCollector::Deposit(int solver, History history, SolverPart part) {
  const Deposited deposited{std::make_shared<const History>(std::move(history)),
                            std::make_shared<const SolverPart>(std::move(part))};
  std::lock_guard lock(mutex_);
  return Put(solver, deposited);
}

std::optional<Snapshot> SnapshotCollector::Leave(int solver, History history, SolverPart part) {
  const Deposited deposited{std::make_shared<const History>(std::move(history)),
                            std::make_shared<const SolverPart>(std::move(part))};
  std::lock_guard lock(mutex_);
  left_[solver] = deposited;
  return Put(solver, deposited);
}

std::optional<Snapshot> SnapshotCollector::Put(int solver, const Deposited& deposited) {
  if (!WantsLocked(solver)) return std::nullopt;
  open_->histories[solver] = deposited.history;
  open_->parts[solver] = deposited.part;
  return TakeIfComplete();
}

std::optional<Snapshot> SnapshotCollector::TakeIfComplete() {
  const auto& histories = open_->histories;
  if (std::find(histories.begin(), histories.end(), nullptr) != histories.end()) {
    return std::nullopt;
  }
  last_collected_ = std::max(last_collected_, open_->iteration);
  any_open_ = false;
  return std::exchange(open_, std::nullopt);
}

}  // namespace millrace::inline solver
