#include "train/run_finalizer.h"

#include <glog/logging.h>

#include <span>
#include <utility>

#include "cluster/merged_weights.h"

namespace millrace::inline train {
namespace {

constexpr int kStepMs = 5;
constexpr int64_t kLongNs = 1'000'000'000, kLogAgainNs = 10'000'000'000;
// Maximum wait for the leader to save and to combine the test: kTimeoutNs plus kTestTimeoutFactor
// times this node's estimate for the whole test.
constexpr int64_t kTimeoutNs = 30'000'000'000, kTestTimeoutFactor = 4;

}  // namespace

RunFinalizer::RunFinalizer(RunFinalizerParts parts)
    : parts_(std::move(parts)),
      began_ns_(parts_.clock->NowNs()),
      termination_(*parts_.termination) {}

bool RunFinalizer::Run(int64_t iteration) {
  iteration_ = iteration;
  due_ = parts_.tester->Due(iteration) || (parts_.tests_always && !parts_.tester->empty());
  return AwaitQuiescence() && SaveAndTest();
}

// Waits until frozen_ holds the weights of all nodes, or until more waiting is useless. Returns
// false if the run is stopped.
bool RunFinalizer::AwaitQuiescence() {
  while (!parts_.stopped(kStepMs)) {
    switch (termination_.Update()) {
      case TerminationDetector::State::kTraining:
        LogTraining();
        break;
      case TerminationDetector::State::kInFlight:
        LogMoving();
        break;
      case TerminationDetector::State::kQuiescent:
        Demote();
        // The weights may have changed since Update.
        if (termination_.WithWeights(checksum_) == termination_.there()) return true;
        break;
      case TerminationDetector::State::kDiverged:
        Demote();
        LOG(WARNING) << "Of " << termination_.there().size() << " nodes "
                     << termination_.WithWeights(checksum_).size()
                     << " have this node's weights; going on without waiting for the others";
        return true;
    }
  }
  return false;
}

void RunFinalizer::Demote() {
  if (!frozen_) frozen_ = WeightBuffer::CreatePrivate(*parts_.layout);
  HogwildReadWeights(*parts_.weights, frozen_->data());
  checksum_ =
      TerminationDetector::Checksum({frozen_->data(), static_cast<size_t>(parts_.weights->size())});
}

// Logs each set of nodes once, if the wait is long.
void RunFinalizer::LogTraining() {
  const std::vector<NodeId> training = termination_.Training();
  const bool long_ago = parts_.clock->NowNs() - began_ns_ >= kLongNs;
  if (training == training_ || !long_ago) return;
  training_ = training;
  std::string names;
  for (const NodeId node : training) {
    names +=
        StrCat(names.empty() ? "" : ", ", node < parts_.names.size() ? parts_.names[node] : "?");
  }
  LOG(INFO) << "Waiting for the last iterations of " << names;
}

void RunFinalizer::LogMoving() {
  const int64_t now = parts_.clock->NowNs();
  if (log_moving_ns_ < 0) log_moving_ns_ = now + kLongNs;
  if (now < log_moving_ns_) return;
  log_moving_ns_ = now + kLogAgainNs;
  LOG(INFO) << "Waiting until all nodes have the same weights: of " << termination_.there().size()
            << " " << termination_.WithOwnWeights().size() << " have this node's";
}

// Returns false if the run is stopped.
bool RunFinalizer::SaveAndTest() {
  if (parts_.cluster->is_leader()) Save();
  // Missing parts of the previous test must be evaluated on the weights of that test.
  if (parts_.distributed_evaluation != nullptr) parts_.distributed_evaluation->Close();
  before_ = parts_.tester->last();
  parts_.tester->BindWeights(frozen_->data());
  const int64_t begin = parts_.clock->NowNs();
  if (due_ && parts_.distributed_evaluation != nullptr) {
    parts_.distributed_evaluation->BeginLast(iteration_, checksum_,
                                             termination_.WithWeights(checksum_));
  }
  const int64_t now = parts_.clock->NowNs();
  const auto nodes = static_cast<int64_t>(termination_.there().size());
  const int64_t deadline_ns = now + kTimeoutNs + kTestTimeoutFactor * nodes * (now - begin);
  while (!parts_.stopped(kStepMs)) {
    termination_.Update();
    if (parts_.cluster->is_leader()) {
      Save();
      if (!TestIfReady()) continue;
      termination_.PublishDone();
      return true;
    }
    if (Follow()) return true;
    if (parts_.clock->NowNs() >= deadline_ns) {
      LOG(WARNING) << "Leaving before the end of the last test: the leader is too slow";
      return true;
    }
  }
  return false;
}

void RunFinalizer::Save() {
  if (std::exchange(saved_, true)) return;
  parts_.save(frozen_->data(), true);
}

// For the leader. Returns true if no test remains to be done.
bool RunFinalizer::TestIfReady() {
  if (!due_) return true;
  if (parts_.distributed_evaluation == nullptr) {
    tests_ = parts_.tester->Run(iteration_, [this] { return parts_.stopped(0); });
  } else if (parts_.distributed_evaluation->LastIsReady(termination_.there())) {
    tests_ = parts_.distributed_evaluation->Finish();
  }
  return !tests_.empty();
}

// For the other nodes. Returns true if the leader has completed its work.
bool RunFinalizer::Follow() {
  if (!termination_.done()) return false;
  if (due_ && parts_.distributed_evaluation != nullptr) {
    tests_ = parts_.distributed_evaluation->Published();
    if (tests_.empty()) return false;
  }
  if (!std::exchange(saved_, true)) parts_.save(frozen_->data(), false);
  return true;
}

}  // namespace millrace::inline train
