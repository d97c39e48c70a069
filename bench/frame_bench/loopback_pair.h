// Two nodes, each an exchange on a thread of its own, joined by the loopback
// transport: all of the protocol's work end to end, without a network.
#ifndef MILLRACE_BENCH_FRAME_BENCH_LOOPBACK_PAIR_H_
#define MILLRACE_BENCH_FRAME_BENCH_LOOPBACK_PAIR_H_

#include <cstdint>

namespace frame_bench {

struct PairRates {
  double frames_per_second = 0;        // delivered, both directions together
  double exchanged_gb_per_second = 0;  // positions taken and diffs merged, bytes of floats
};

// Both nodes make progress all the time on arrays of `floats` floats.
PairRates MeasurePair(int64_t floats, int64_t chunk_floats, double seconds);

}  // namespace frame_bench

#endif  // MILLRACE_BENCH_FRAME_BENCH_LOOPBACK_PAIR_H_
