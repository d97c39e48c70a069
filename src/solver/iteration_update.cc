#include "solver/iteration_update.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"

namespace millrace::inline solver {
namespace {

std::atomic<uint64_t> next_number{1};

}  // namespace

IterationUpdate::IterationUpdate(BuiltNet* net, Strategy* strategy, UpdateRule* rule)
    : net_(*net),
      weights_(strategy->weights()),
      rule_(dynamic_cast<RecordableRule*>(rule)),
      number_(next_number++) {
  if (rule_ == nullptr) {
    why_not_ = "the update rule may need the host";
    return;
  }
  strategy_ = strategy->behind_passes(&why_not_);
  if (strategy_ != nullptr) why_not_ = FindLosses();
}

std::string IterationUpdate::FindLosses() {
  guard_ = {};
  for (const BuiltNet::Node& node : net_.nodes()) {
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (node.loss_weight[i] == 0) continue;
      const Blob* const loss = node.top[i];
      // The memory of other blobs may be used again in the backward pass.
      const bool stays = std::any_of(net_.outputs().begin(), net_.outputs().end(),
                                     [=](const auto& output) { return output.blob == loss; });
      if (!stays || loss->count() != 1 || guard_.count == LossGuard::kMaxLosses) {
        return StrCat("the objective is not the sum of at most ", LossGuard::kMaxLosses,
                      " outputs of one number each");
      }
      guard_.weights[guard_.count] = node.loss_weight[i];
      guard_.losses[guard_.count++] = loss->data();
    }
  }
  return "";
}

void IterationUpdate::Enqueue() {
  FindLosses();  // their memory may have moved
  rule_->EnqueueUpdate(strategy_->Corrected(net_.gradients()), weights_, guard_);
}

}  // namespace millrace::inline solver
