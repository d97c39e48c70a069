// Logs the expected exchange time of each segment at the start of a run, and stops a run whose
// nodes cannot learn from each other.
//
// Pure logic. Not thread-safe.
#ifndef MILLRACE_CLUSTER_START_CHECK_H_
#define MILLRACE_CLUSTER_START_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::inline cluster {

// The facts about a segment that the check uses.
struct ExpectedSegment {
  std::string name;
  size_t members = 2;
  int64_t weights = 0;  // floats in the segment's range
  double seconds = 0;   // of one exchange of all weights (cluster/sweep_estimate.h); 0: unknown
  double megabits = 0;  // link rate behind `seconds`, Mbit/s
  std::string source;   // origin of the rate, for messages
};

class StartCheck {
 public:
  // Minimum iterations of each solver, and minimum time, before the time of an iteration counts as
  // known.
  static constexpr int64_t kIterations = 20;
  static constexpr double kSeconds = 1;
  // Minimum exchanges of all weights in a run. With fewer, the nodes train nearly independently and
  // their weights are only averaged at the end.
  static constexpr double kFewestExchanges = 4;

  // `momentum`: of the solvers' update rule, 0 if it has none or looks ahead (solver/sgd.h).
  explicit StartCheck(std::vector<ExpectedSegment> segments, double momentum = 0);

  // Log lines for the start of training.
  std::vector<std::string> Lines() const;
  // Compares the training speed with the exchange times. `solvers`: of this node; `own`: iterations
  // done here in `seconds`; `whole`: iterations of the whole cluster in this run. Returns log lines
  // once, as soon as the time of an iteration is known. Throws Error with one line, which includes
  // the remedy, if the run would end before its nodes could learn from each other.
  std::vector<std::string> Check(int solvers, int64_t own, double seconds, int64_t whole);

 private:
  const std::vector<ExpectedSegment> segments_;
  const double momentum_;
  bool checked_ = false;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_START_CHECK_H_
