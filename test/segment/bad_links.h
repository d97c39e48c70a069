// In-memory links that lose, duplicate and delay frames. The test supplies the time.
#ifndef MILLRACE_TEST_SEGMENT_BAD_LINKS_H_
#define MILLRACE_TEST_SEGMENT_BAD_LINKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace millrace::test {

inline constexpr int64_t kMs = 1'000'000;

// Probabilities of loss and duplication. A frame takes delay_ns plus up to jitter_ns.
struct Faults {
  double loss = 0, duplicates = 0;
  int64_t delay_ns = kMs, jitter_ns = 0;
};

// `Frame` must identify its receiver.
template <typename Frame>
class BadLinks {
 public:
  BadLinks(const Faults& faults, const Rng& rng) : faults_(faults), rng_(rng) {}
  void set_faults(const Faults& faults) { faults_ = faults; }

  void Carry(const Frame& frame, int64_t now) {
    const int copies = rng_.Uniform() < faults_.duplicates ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (rng_.Uniform() < faults_.loss) continue;
      const auto jitter = static_cast<int64_t>(rng_.Below(uint64_t(faults_.jitter_ns) + 1));
      under_way_.push_back({now + faults_.delay_ns + jitter, frame});
    }
  }
  // Removes and returns the frames that have arrived by `now`, ordered by arrival.
  std::vector<Frame> Arrived(int64_t now) {
    const auto later = std::stable_partition(under_way_.begin(), under_way_.end(),
                                             [&](const auto& each) { return each.arrives <= now; });
    std::stable_sort(under_way_.begin(), later,
                     [](const auto& a, const auto& b) { return a.arrives < b.arrives; });
    std::vector<Frame> frames;
    std::for_each(under_way_.begin(), later, [&](auto& each) { frames.push_back(each.frame); });
    under_way_.erase(under_way_.begin(), later);
    return frames;
  }
  bool empty() const { return under_way_.empty(); }

 private:
  struct UnderWay {
    int64_t arrives;
    Frame frame;
  };
  Faults faults_;
  Rng rng_;
  std::vector<UnderWay> under_way_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SEGMENT_BAD_LINKS_H_
