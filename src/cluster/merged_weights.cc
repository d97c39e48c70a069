#include "cluster/merged_weights.h"

#include <utility>

namespace millrace::inline cluster {

MergedWeights::MergedWeights(Cluster* cluster, WeightReader weights, const ParamLayout& layout)
    : cluster_(*cluster),
      weights_(std::move(weights)),
      merged_(WeightBuffer::CreatePrivate(layout)) {}

bool MergedWeights::Read(const std::function<bool()>& stop, const std::function<void()>& use) {
  std::lock_guard lock(mutex_);
  weights_.Copy(merged_->data());
  if (!cluster_.ReadMerged(merged_->data(), stop)) return false;
  use();
  return true;
}

}  // namespace millrace::inline cluster
