// Divergence of a replica from its masters, as measured by one sampling round over its chunks.
#ifndef MILLRACE_SEGMENT_DIVERGENCE_H_
#define MILLRACE_SEGMENT_DIVERGENCE_H_

#include <cstdint>

namespace millrace::inline segment {

// Over the chunks that one peer masters, or over those of all peers. Times are in ns. Medians and
// percentiles are accurate to an eighth.
struct Divergence {
  uint64_t rounds = 0;  // completed; 0: no data yet, all fields are 0
  uint64_t chunks = 0;  // sampled: mastered by a peer, with a position taken
  // Age of the newest position taken of a chunk. Masters send no positions without progress, so it
  // grows while nothing trains.
  int64_t age_p50_ns = 0, age_max_ns = 0;
  // Iterations of all nodes within the median age, at their rate during the round.
  double age_iterations = 0;
  // Distance between this replica's weights and the positions last taken, over `sampled` weights:
  // root mean square and maximum. It is the local progress that the master is not known to have.
  uint64_t sampled = 0;
  double distance_rms = 0, distance_max = 0;
  // Diffs acknowledged during the round, and their round trips; 0 if there were none.
  uint64_t answered = 0;
  int64_t round_trip_p50_ns = 0, round_trip_p99_ns = 0;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_DIVERGENCE_H_
