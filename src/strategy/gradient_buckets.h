// Divides a flat array of gradients into buckets, which are summed one by one while a backward pass
// still computes those before them: from the end of the array to its start.
#ifndef MILLRACE_STRATEGY_GRADIENT_BUCKETS_H_
#define MILLRACE_STRATEGY_GRADIENT_BUCKETS_H_

#include <algorithm>
#include <cstdint>

namespace millrace::inline strategy {

class GradientBuckets {
 public:
  // `size` floats in buckets of `bucket` floats, at least 1; the last one may be smaller. The
  // buckets depend on these numbers only.
  GradientBuckets(int64_t size, int64_t bucket) : size_(size), bucket_(bucket), left_(size) {}

  // The elements from `begin` on are complete: calls use(first, count) for each bucket that has
  // become complete since the last call.
  template <typename Use>
  void Complete(int64_t begin, Use use) {
    while (left_ > 0 && std::max<int64_t>(left_ - bucket_, 0) >= begin) {
      const int64_t first = std::max<int64_t>(left_ - bucket_, 0);
      use(first, left_ - first);
      left_ = first;
    }
  }
  // Begins another pass.
  void Restart() { left_ = size_; }

 private:
  const int64_t size_, bucket_;
  int64_t left_;  // elements before this one are in no complete bucket yet
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_GRADIENT_BUCKETS_H_
