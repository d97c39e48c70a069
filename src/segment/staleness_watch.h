// Monitors the staleness of a segment's exchanges and decides when to warn that damping
// (exchange/protocol/damping.h) holds back so much progress that training learns more slowly. Pure
// logic: time and counters are arguments.
#ifndef MILLRACE_SEGMENT_STALENESS_WATCH_H_
#define MILLRACE_SEGMENT_STALENESS_WATCH_H_

#include <cstdint>
#include <string>
#include <utility>

namespace millrace::inline segment {

// Counters since the exchange was made.
struct StalenessCounts {
  uint64_t iterations = 0;  // of the whole cluster; may fall at a change of view
  double sweeps = 0;        // over all chunks
  uint64_t diffs = 0;       // taken from this node's progress
  uint64_t damped = 0;      // diffs that were damped
  bool paced = false;       // at this moment the pace (segment/pace.h) limits the segment
  uint64_t passes = 0;      // of the segment's thread
  uint64_t full = 0;        // of these, those at whose end the link or max_mbps had no room
};

// Cluster iterations between two exchanges of a chunk, over the last windows of training.
class StalenessEstimate {
 public:
  // Least iterations of the cluster, and sweeps over the chunks, in a window.
  static constexpr uint64_t kWindow = 64;
  static constexpr double kMinSweeps = 0.5;

  // Takes both counters of StalenessCounts. Call it at least once in an iteration of this node.
  void Update(uint64_t iterations, double sweeps);
  // 0: not known yet.
  double iterations() const { return iterations_; }

 private:
  bool begun_ = false;
  uint64_t begin_iterations_ = 0;  // of this window
  double begin_sweeps_ = 0;
  double recent_iterations_ = 0, recent_sweeps_ = 0;  // sums; each window halves the old ones
  double iterations_ = 0;
};

class StalenessWatch {
 public:
  // Interval between comparisons of the counters.
  static constexpr int64_t kStepNs = 1'000'000'000;
  // A step is stale if more than this share of its diffs was damped.
  static constexpr double kStaleShare = 0.5;
  // Consecutive stale steps before the warning. Steps without training do not count.
  static constexpr int kWarnAfter = 5;

  // `remedies`: what the warning advises where exchanges take too long, a sentence without its full
  // stop; empty: what helps on a network.
  explicit StalenessWatch(std::string remedies = {}) : remedies_(std::move(remedies)) {}

  // Must be called several times per step. True once in the lifetime of this object: after
  // kWarnAfter stale steps.
  bool Update(int64_t now_ns, const StalenessCounts& counts);

  double iterations() const { return estimate_.iterations(); }  // StalenessEstimate::iterations
  // Text of the warning: the problem and its remedies.
  std::string Warning() const;

 private:
  const std::string remedies_;
  int64_t begin_ns_ = -1;  // start of this step; -1: before the first
  StalenessCounts before_;
  StalenessEstimate estimate_;
  int stale_steps_ = 0;
  int paced_steps_ = 0;  // of these, steps at whose end the pace limited the segment
  int full_steps_ = 0;   // of these, steps in most of whose passes the link had no room
  bool warned_ = false;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_STALENESS_WATCH_H_
