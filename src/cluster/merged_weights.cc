#include "cluster/merged_weights.h"

#include "weights/read_weights.h"

namespace millrace::inline cluster {

MergedWeights::MergedWeights(Cluster* cluster, const WeightBuffer* weights,
                             const ParamLayout& layout)
    : cluster_(*cluster), weights_(*weights), merged_(WeightBuffer::CreatePrivate(layout)) {}

bool MergedWeights::Read(const std::function<bool()>& stop, const std::function<void()>& use) {
  std::lock_guard lock(mutex_);
  HogwildReadWeights(weights_.size(), weights_.data(), merged_->data());
  if (!cluster_.ReadMerged(merged_->data(), stop)) return false;
  use();
  return true;
}

}  // namespace millrace::inline cluster
