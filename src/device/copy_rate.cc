#include "device/copy_rate.h"

#include <algorithm>

namespace millrace::inline device {
namespace {

constexpr size_t kBytes = size_t{8} << 20;
constexpr int kTimes = 4;

// Rate of the fastest of kTimes copies. The first copy also pays for page faults and set-up.
template <typename Copy>
double BestRate(const Clock& clock, Copy copy) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < kTimes; ++i) {
    const int64_t begin = clock.NowNs();
    copy();
    best = std::min(best, clock.NowNs() - begin);
  }
  return 1e9 * static_cast<double>(kBytes) / static_cast<double>(std::max<int64_t>(best, 1));
}

}  // namespace

CopyRate MeasureCopies(MemorySpace& memory, MemorySpace& staging, const Clock& clock) {
  const Buffer there(memory, kBytes), here(staging, kBytes);
  staging.Fill(here.get(), 0, kBytes);
  CopyRate rate;
  rate.from_host = BestRate(clock, [&] { memory.CopyFromHost(there.get(), here.get(), kBytes); });
  rate.to_host = BestRate(clock, [&] { memory.CopyToHost(here.get(), there.get(), kBytes); });
  return rate;
}

}  // namespace millrace::inline device
