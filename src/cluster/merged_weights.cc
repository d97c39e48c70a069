#include "cluster/merged_weights.h"

#include <algorithm>

namespace millrace::inline cluster {

__attribute__((noinline)) void HogwildReadWeights(const WeightBuffer& from, float* to) {
  std::copy_n(from.data(), from.size(), to);
}

MergedWeights::MergedWeights(Cluster* cluster, const WeightBuffer* weights,
                             const ParamLayout& layout)
    : cluster_(*cluster), weights_(*weights), merged_(WeightBuffer::CreatePrivate(layout)) {}

bool MergedWeights::Read(const std::function<bool()>& stop, const std::function<void()>& use) {
  std::lock_guard lock(mutex_);
  HogwildReadWeights(weights_, merged_->data());
  if (!cluster_.ReadMerged(merged_->data(), stop)) return false;
  use();
  return true;
}

}  // namespace millrace::inline cluster
