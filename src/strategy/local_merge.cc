#include "strategy/local_merge.h"

#include <atomic>

#include "device/atomic_update.h"

namespace millrace::inline strategy {

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
