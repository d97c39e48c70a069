// A team of threads that computes one row of a kernel (device/kernel.h): a GPU thread block, host
// threads, or one thread that takes all parts in turn (SerialTeam).
#ifndef MILLRACE_DEVICE_TEAM_H_
#define MILLRACE_DEVICE_TEAM_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline device {

// Exchange area of the threads of a team, in memory that they share.
template <uint32_t kThreads>
struct TeamArea {
  double part[kThreads];
};

// One instance per thread. All threads of a team make the same calls in the same order. The
// template parameter provides:
//   static constexpr uint32_t kThreads   a power of two
//   index()                              number of this thread in its team
//   Sync()                               barrier of the team; writes before it are visible after it
template <typename Lanes>
class Team {
 public:
  MILLRACE_HOST_DEVICE Team(TeamArea<Lanes::kThreads>* area, const Lanes& lanes)
      : area_(*area), lanes_(lanes) {}

  // Calls step(i) for each i in [0, n), each on one thread. Its writes are visible to the whole
  // team on return.
  template <typename Step>
  MILLRACE_HOST_DEVICE void ForEach(int64_t n, Step step) {
    for (int64_t i = lanes_.index(); i < n; i += Lanes::kThreads) step(i);
    lanes_.Sync();
  }

  // The sum of value(i) over [0, n), the same on all threads. The order of additions depends only
  // on n and the size of the team.
  template <typename Value>
  MILLRACE_HOST_DEVICE double Sum(int64_t n, Value value) {
    double own = 0;
    for (int64_t i = lanes_.index(); i < n; i += Lanes::kThreads) {
      own += static_cast<double>(value(i));
    }
    return Combine(own, [](double a, double b) { return a + b; });
  }

  // The largest value(i) over [0, n), n > 0, on all threads; NaN if any is.
  template <typename Value>
  MILLRACE_HOST_DEVICE float Max(int64_t n, Value value) {
    double own = value(0);
    for (int64_t i = lanes_.index(); i < n; i += Lanes::kThreads) {
      own = Larger(own, static_cast<double>(value(i)));
    }
    return static_cast<float>(Combine(own, [](double a, double b) { return Larger(a, b); }));
  }

  // Calls step() on one thread. What it writes is visible afterwards.
  template <typename Step>
  MILLRACE_HOST_DEVICE void Once(Step step) {
    if (lanes_.index() == 0) step();
    lanes_.Sync();
  }

 private:
  static MILLRACE_HOST_DEVICE double Larger(double a, double b) {
    return a != a ? a : (b != b || b > a ? b : a);
  }

  // Combines the values of all threads in pairs; returns the result to each of them.
  template <typename Both>
  MILLRACE_HOST_DEVICE double Combine(double own, Both both) {
    const uint32_t index = lanes_.index();
    area_.part[index] = own;
    lanes_.Sync();
    for (uint32_t step = Lanes::kThreads / 2; step > 0; step /= 2) {
      if (index < step) area_.part[index] = both(area_.part[index], area_.part[index + step]);
      lanes_.Sync();
    }
    const double all = area_.part[0];
    lanes_.Sync();
    return all;
  }

  TeamArea<Lanes::kThreads>& area_;
  const Lanes lanes_;
};

// A team of one.
struct SerialLanes {
  static constexpr uint32_t kThreads = 1;
  MILLRACE_HOST_DEVICE uint32_t index() const { return 0; }
  MILLRACE_HOST_DEVICE void Sync() const {}
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_TEAM_H_
