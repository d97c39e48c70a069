#include "segment/staleness_watch.h"

#include <cmath>

#include "base/error.h"
#include "exchange/protocol/damping.h"

namespace millrace::inline segment {

void StalenessEstimate::Update(uint64_t iterations, double sweeps) {
  const bool goes_on = begun_ && iterations >= begin_iterations_;
  if (goes_on && iterations - begin_iterations_ < kWindow) return;
  if (goes_on) {
    const auto made = static_cast<double>(iterations - begin_iterations_);
    const double swept = sweeps - begin_sweeps_;
    // Halving smooths the sums. A window with few exchanges is not at its end: halving in each of
    // many such windows would forget the exchanges before them.
    const bool ends = swept >= kMinSweeps;
    const double kept = ends ? 0.5 : 1;
    const double sum = kept * recent_iterations_ + made;
    const double sum_swept = kept * recent_sweeps_ + swept;
    if (sum_swept > 0) iterations_ = sum / sum_swept;
    if (!ends) return;
    recent_iterations_ = sum;
    recent_sweeps_ = sum_swept;
  }
  begun_ = true;
  begin_iterations_ = iterations;
  begin_sweeps_ = sweeps;
}

bool StalenessWatch::Update(int64_t now_ns, const StalenessCounts& counts) {
  estimate_.Update(counts.iterations, counts.sweeps);
  if (begin_ns_ >= 0 && now_ns - begin_ns_ < kStepNs) return false;
  const bool first = begin_ns_ < 0;
  const StalenessCounts before = before_;
  begin_ns_ = now_ns;
  before_ = counts;
  if (first || counts.iterations <= before.iterations) return false;  // no training
  const auto diffs = static_cast<double>(counts.diffs - before.diffs);
  if (diffs == 0) return false;
  const bool stale = static_cast<double>(counts.damped - before.damped) > kStaleShare * diffs;
  stale_steps_ = stale ? stale_steps_ + 1 : 0;
  paced_steps_ = stale ? paced_steps_ + (counts.paced ? 1 : 0) : 0;
  const bool full = 2 * (counts.full - before.full) > counts.passes - before.passes;
  full_steps_ = stale ? full_steps_ + (full ? 1 : 0) : 0;
  if (stale_steps_ < kWarnAfter || warned_) return false;
  return warned_ = true;
}

std::string StalenessWatch::Warning() const {
  if (iterations() > 0 && iterations() <= kFreshIterations) {
    return StrCat(
        "solvers merge weights of their own (strategy \"local\") after more iterations of the ",
        "cluster than the ", kFreshIterations, " that are fresh: nodes add a share of their ",
        "progress at a time, and the run learns more slowly. What helps: merging more often, ",
        "fewer nodes on the segment; damping: false where a merge rule takes the mean");
  }
  const char* const cause =
      !remedies_.empty() ? remedies_.c_str()
      : 2 * paced_steps_ > stale_steps_
          ? "The segment's pace holds it back, which leaves processors to the solvers. What helps: "
            "a larger solver_share, pace: \"full\", or fewer solvers on this node; or fewer nodes "
            "on the segment"
      : 2 * full_steps_ > stale_steps_
          ? "The link has no room for more. What helps: codec \"bfloat16\" or \"int8\", a faster "
            "link or a higher max_mbps, fewer nodes on the segment"
          : "The link has room; the processors of the nodes, which solvers use, are the limit. "
            "What helps: a larger batch_size, fewer solvers on a node, fewer nodes on the segment";
  return StrCat("about ", std::lround(iterations()), " iterations of the cluster lie between two ",
                "exchanges of a chunk, more than the ", kFreshIterations, " that are fresh: nodes ",
                "add a share of their progress at a time, and the run learns more slowly. ", cause);
}

}  // namespace millrace::inline segment
