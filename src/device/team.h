// A team of threads that computes one row of a kernel (device/kernel.h): a GPU thread block, host
// threads, or one thread that takes all parts in turn (SerialTeam).
#ifndef MILLRACE_DEVICE_TEAM_H_
#define MILLRACE_DEVICE_TEAM_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"

namespace millrace::inline device {

// Two sums over the same values.
struct TwoSums {
  double first = 0, second = 0;
};

// Exchange area of the threads of a team, in memory that they share.
template <uint32_t kThreads>
struct TeamArea {
  double part[kThreads];
  double second_part[kThreads];
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
  template <typename Index, typename Step>
  MILLRACE_HOST_DEVICE void ForEach(Index n, Step step) {
    ForOwn(lanes_.index(), Lanes::kThreads, n, step);
    lanes_.Sync();
  }

  // The sum of value(i) over [0, n), the same on all threads. The order of additions depends only
  // on n and the size of the team.
  template <typename Index, typename Value>
  MILLRACE_HOST_DEVICE double Sum(Index n, Value value) {
    double own = 0;
    ForOwn(lanes_.index(), Lanes::kThreads, n,
           [&](Index i) { own += static_cast<double>(value(i)); });
    return Combine(own, [](double a, double b) { return a + b; });
  }

  // Two sums for each of 2^bits columns: add(column, i, &sums) adds what row i of [0, n) has; then
  // take(column, sums) is called, on one thread. Threads with neighbouring numbers take
  // neighbouring columns. The order of additions is fixed as in Sum.
  template <typename Index, typename Add, typename Take>
  MILLRACE_HOST_DEVICE void SumColumns(int bits, Index n, Add add, Take take) {
    const int width_bits = bits < kBits ? bits : kBits;
    const uint32_t columns = 1u << bits, width = 1u << width_bits, index = lanes_.index();
    for (uint32_t column = index & (width - 1); column < columns; column += width) {
      TwoSums own;
      ForOwn(index >> width_bits, Lanes::kThreads >> width_bits, n,
             [&](Index i) { add(column, i, &own); });
      area_.part[index] = own.first;
      area_.second_part[index] = own.second;
      lanes_.Sync();
      for (uint32_t step = Lanes::kThreads / 2; step >= width; step /= 2) {
        if (index < step) {
          area_.part[index] += area_.part[index + step];
          area_.second_part[index] += area_.second_part[index + step];
        }
        lanes_.Sync();
      }
      if (index < width) take(column, TwoSums{area_.part[index], area_.second_part[index]});
      lanes_.Sync();
    }
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
  static constexpr int kBits = std::countr_zero(Lanes::kThreads);

  // Calls step(i) for i = first, first + stride, ... below n. The last sum may be beyond the range
  // of Index, so it is unsigned.
  template <typename Index, typename Step>
  static MILLRACE_HOST_DEVICE void ForOwn(uint32_t first, uint32_t stride, Index n, Step step) {
    using Unsigned = std::make_unsigned_t<Index>;
    for (Unsigned i = first; i < static_cast<Unsigned>(n); i += stride) step(static_cast<Index>(i));
  }

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
