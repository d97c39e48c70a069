// Watches how stale the exchanges of a segment are, and decides when to warn that damping
// (exchange/protocol/damping.h) holds back so much progress that training learns more slowly. Pure
// logic on the time and the counts that it is given.
#ifndef MILLRACE_SEGMENT_STALENESS_WATCH_H_
#define MILLRACE_SEGMENT_STALENESS_WATCH_H_

#include <cstdint>
#include <string>

namespace millrace {

// Counted since the exchange was made.
struct StalenessCounts {
  uint64_t iterations = 0;  // of the whole cluster; may fall at a change of the view
  double sweeps = 0;        // times that every chunk was exchanged
  uint64_t diffs = 0;       // taken from this node's progress
  uint64_t damped = 0;      // of these
};

class StalenessWatch {
 public:
  // The counts are compared once in so many ns.
  static constexpr int64_t kStepNs = 1'000'000'000;
  // A step is stale where more than this share of its diffs was damped.
  static constexpr double kStaleShare = 0.5;
  // Stale steps in a row before the warning. Steps without training do not count.
  static constexpr int kWarnAfter = 5;

  // To be called at least several times per step. True once in the life of this object: the
  // exchanges have been stale for long enough.
  bool Update(int64_t now_ns, const StalenessCounts& counts);

  // Cluster iterations between two exchanges of a chunk, over the last seconds of training; 0:
  // not known yet.
  double iterations() const { return iterations_; }
  // What Update warns of, and what helps.
  std::string Warning() const;

 private:
  int64_t begin_ns_ = -1;  // of this step; -1: before the first
  StalenessCounts before_;
  double recent_iterations_ = 0, recent_sweeps_ = 0;  // of which each step halves the weight
  double iterations_ = 0;
  int stale_steps_ = 0;
  bool warned_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_STALENESS_WATCH_H_
