// What a node expects of its segments when a run starts, and whether the run can learn at all.
//
// Pure logic, but for what it is made of. Not thread-safe.
#ifndef MILLRACE_CLUSTER_START_CHECK_H_
#define MILLRACE_CLUSTER_START_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// A segment, as far as the check needs to know it.
struct ExpectedSegment {
  std::string name;
  size_t members = 2;
  int64_t weights = 0;  // that it carries
  double seconds = 0;   // of one exchange of all of them (cluster/sweep_estimate.h); 0: not known
  double megabits = 0;  // the rate that this is at
  std::string source;   // of the rate
};

class StartCheck {
 public:
  // Iterations of each solver after which the time of one counts as known, and the least time.
  static constexpr int64_t kIterations = 20;
  static constexpr double kSeconds = 1;
  // Fewer exchanges of all weights than this in a whole run, and its nodes hardly learn from each
  // other: what one of them did is averaged in at the end.
  static constexpr double kFewestExchanges = 4;

  explicit StartCheck(std::vector<ExpectedSegment> segments);

  // Lines for the log before training starts.
  std::vector<std::string> Lines() const;
  // While `solvers` of this node train: `own` iterations done here in `seconds`, `whole` iterations
  // of the cluster in the run. Lines for the log, once, as soon as the time of an iteration is
  // known. Throws Error, one line with the remedy, if the run is over before its nodes could have
  // learned from each other.
  std::vector<std::string> Judge(int solvers, int64_t own, double seconds, int64_t whole);

 private:
  const std::vector<ExpectedSegment> segments_;
  bool judged_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_START_CHECK_H_
