// How close a replica is to its masters: what one look over its chunks has found.
#ifndef MILLRACE_SEGMENT_DIVERGENCE_H_
#define MILLRACE_SEGMENT_DIVERGENCE_H_

#include <cstdint>

namespace millrace {

// Of the chunks that one peer masters, or all peers together. Times are in ns; medians
// and percentiles are right to within an eighth.
struct Divergence {
  uint64_t rounds = 0;  // that have ended; 0: nothing is known yet, and all is 0
  uint64_t chunks = 0;  // that were looked at: others master them, a position was taken
  // Age of the newest position taken of a chunk. Without progress no positions come, so
  // it grows while everything rests.
  int64_t age_p50_ns = 0, age_max_ns = 0;
  // Iterations that all nodes together do in the median age, as fast as during the survey.
  double age_iterations = 0;
  // Between this replica's weights and the positions last taken, over `sampled` weights:
  // root of the mean of the squared diffs, and the largest diff. This is the
  // progress made here that the master is not known to have.
  uint64_t sampled = 0;
  double distance_rms = 0, distance_max = 0;
  // Diffs that were acknowledged during the survey, and how long that took; 0 when
  // there were none.
  uint64_t answered = 0;
  int64_t round_trip_p50_ns = 0, round_trip_p99_ns = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_DIVERGENCE_H_
