#include "weights/copy_weights.h"

#include <algorithm>
#include <initializer_list>

#include "base/simd.h"

namespace millrace::inline weights {

// Not inlined: the thread sanitizer's suppressions match the name.
__attribute__((noinline)) void HogwildReadWeights(int64_t count, const float* weights, float* to) {
  std::copy_n(weights, count, to);
}

// In vectors by hand: compilers find none where comparisons may trap. One pass over three arrays
// waits for memory, so that wider ones gain nothing.
void MergeCopy(int64_t count, float* shared, float* copy, float* base) {
  using Float = Sse::Float;
  const auto merged = [](auto s, auto c, auto b) { return s == b ? c : s + (c - b); };
  int64_t i = 0;
  for (; i + Sse::kLanes <= count; i += Sse::kLanes) {
    const Float s = *reinterpret_cast<const Float*>(shared + i);
    const Float c = *reinterpret_cast<const Float*>(copy + i);
    const Float b = *reinterpret_cast<const Float*>(base + i);
    const Float sum = merged(s, c, b);
    for (float* to : {shared, copy, base}) *reinterpret_cast<Float*>(to + i) = sum;
  }
  for (; i < count; ++i) {
    shared[i] = copy[i] = base[i] = merged(shared[i], copy[i], base[i]);
  }
}

}  // namespace millrace::inline weights
