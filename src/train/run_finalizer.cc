#include "train/run_finalizer.h"

#include <glog/logging.h>

#include <span>
#include <utility>

#include "cluster/merged_weights.h"

namespace millrace::inline train {
namespace {

constexpr int kStepMs = 5;
// Maximum wait for the leader to save and to combine the test: kTimeoutNs plus kTestTimeoutFactor
// times this node's estimate for the whole test.
constexpr int64_t kTimeoutNs = 30'000'000'000, kTestTimeoutFactor = 4;

}  // namespace

RunFinalizer::RunFinalizer(RunFinalizerParts parts)
    : parts_(std::move(parts)), life_(*parts_.life), termination_(life_.termination()) {}

bool RunFinalizer::Run(int64_t iteration) {
  iteration_ = iteration;
  // The saved weights are tested even if no test is due at that iteration: no periodic test has
  // seen the last merges.
  tests_weights_ = !parts_.tester->empty();
  return AwaitQuiescence() && SaveAndTest();
}

// Waits until frozen_ holds the weights of all nodes, or until more waiting is useless. Returns
// false if the run is stopped.
bool RunFinalizer::AwaitQuiescence() {
  life_.BeginEnding([this] { return FreezeWeights(); });
  while (!parts_.stopped(kStepMs)) {
    if (life_.PollEnd() == QuiescenceWait::Result::kWaiting) continue;
    if (!failure().empty()) LOG(ERROR) << failure();
    return true;
  }
  return false;
}

uint32_t RunFinalizer::FreezeWeights() {
  if (!frozen_) frozen_ = WeightBuffer::CreatePrivate(*parts_.layout);
  parts_.weights.Copy(frozen_->data());
  return TerminationDetector::Checksum(
      {frozen_->data(), static_cast<size_t>(parts_.weights.size())});
}

// Returns false if the run is stopped.
bool RunFinalizer::SaveAndTest() {
  if (parts_.peers->is_leader()) Save();
  // Missing parts of the previous test must be evaluated on the weights of that test.
  if (parts_.distributed_evaluation != nullptr) parts_.distributed_evaluation->Close();
  before_ = parts_.tester->last();
  parts_.tester->BindWeights(frozen_->data());
  const int64_t begin = parts_.clock->NowNs();
  const uint32_t checksum = life_.end_checksum();
  if (tests_weights_ && parts_.distributed_evaluation != nullptr) {
    parts_.distributed_evaluation->BeginFinalTest(iteration_, checksum,
                                                  termination_.WithWeights(checksum));
  }
  const int64_t now = parts_.clock->NowNs();
  const auto nodes = static_cast<int64_t>(termination_.reachable().size());
  const int64_t deadline_ns = now + kTimeoutNs + kTestTimeoutFactor * nodes * (now - begin);
  while (!parts_.stopped(kStepMs)) {
    termination_.Update();
    if (parts_.peers->is_leader()) {
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
  if (!tests_weights_) return true;
  if (parts_.distributed_evaluation == nullptr) {
    tests_ = parts_.tester->Run(iteration_, [this] { return parts_.stopped(0); });
  } else if (parts_.distributed_evaluation->IsFinalTestReady(termination_.reachable())) {
    tests_ = parts_.distributed_evaluation->Finish();
  }
  return !tests_.empty();
}

// For the other nodes. Returns true if the leader has completed its work.
bool RunFinalizer::Follow() {
  if (!termination_.done()) return false;
  if (tests_weights_ && parts_.distributed_evaluation != nullptr) {
    tests_ = parts_.distributed_evaluation->Published();
    if (tests_.empty()) return false;
  }
  if (!std::exchange(saved_, true)) parts_.save(frozen_->data(), false);
  return true;
}

}  // namespace millrace::inline train
