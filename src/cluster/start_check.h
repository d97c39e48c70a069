// Logs the expected exchange time of each segment at the start of a run, how much sooner its nodes
// are expected to learn than one, and what would help; and finds runs whose nodes cannot learn from
// each other. One node's finding ends all nodes (TerminationDetector::PublishTooShort).
//
// StartCheck is pure logic and not thread-safe.
#ifndef MILLRACE_CLUSTER_START_CHECK_H_
#define MILLRACE_CLUSTER_START_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::inline cluster {

// The facts about a segment that the check uses.
struct ExpectedSegment {
  std::string name;
  size_t members = 2;
  int64_t weights = 0;  // floats in the segment's range
  double seconds = 0;   // of one exchange of all weights (cluster/sweep_estimate.h); 0: unknown
  double megabits = 0;  // link rate behind `seconds`, Mbit/s
  std::string source;   // origin of the rate, for messages
  bool damping = true;  // stale progress is damped
  std::string codec;    // name of its codec (exchange/kernels/codec_config.h)
  std::string position_codec = "float32";  // of that for its positions
  std::string rule = "additive";           // name of its merge rule
  bool alone = true;         // no other segment of this node exchanges the same weights
  bool scales_rate = false;  // the nodes average at a scaled learning rate (solver/rate_scale.h)
  double int8_seconds = 0;   // `seconds` with int8 diffs and positions; 0: unknown
};

// The facts about the solvers that the check uses.
struct ExpectedSolvers {
  double momentum = 0;     // of their update rule; 0 if it has none
  bool look_ahead = true;  // with Nesterov look-ahead (solver/sgd.h)
  // Solvers train on weights of their own and merge them at times (strategy local).
  bool local = false;
  // Factor of the learning rate (solver/rate_scale.h), for all solvers of a node together, where so
  // many nodes average and `staleness` iterations of all nodes lie between two exchanges.
  std::function<double(double nodes, double staleness)> rate_factor = [](double, double) {
    return 1.0;
  };
};

// How many times as soon as one node those of a segment are expected to reach its accuracy, if all
// are as fast: from what bench/learning has measured (docs/benchmarks/learning.md).
struct ExpectedSpeedup {
  double least = 1, most = 1;
};

// `iterations`: of all nodes together during one exchange.
ExpectedSpeedup SpeedupOf(const ExpectedSegment& segment, const ExpectedSolvers& solvers,
                          double iterations);

// The segments of `node`, whose weight array has `weights` floats. Throws Error as RateOf does.
std::vector<ExpectedSegment> ExpectSegments(const Topology& topology, const NodePlan& node,
                                            int64_t weights);

// The run's schedule would end before its nodes could learn from each other.
class ScheduleTooShort : public Error {
 public:
  using Error::Error;
};

// Progress since this node began to train.
struct StartProgress {
  int solvers = 1;      // of this node
  int64_t own = 0;      // iterations of this node
  int64_t cluster = 0;  // iterations of all nodes
  double seconds = 0;
  int64_t whole = 0;  // iterations of the whole schedule, those before a resumed run included
};

class StartCheck {
 public:
  // Minimum iterations of each solver, and minimum time, before the time of an iteration counts as
  // known. The first iterations say little of the rest, so a part of the schedule must be over as
  // well, unless that takes longer than kLongSeconds.
  static constexpr int64_t kIterations = 20;
  static constexpr double kSeconds = 1, kPart = 0.1, kLongSeconds = 10;
  // Minimum exchanges of all weights in a run. With fewer, the nodes train nearly independently and
  // their weights are only averaged at the end. Solvers of the strategy local are meant to train
  // apart between merges.
  static constexpr double kMinExchanges = 4, kMinExchangesOfLocal = 1;

  explicit StartCheck(std::vector<ExpectedSegment> segments, ExpectedSolvers solvers = {});

  // Log lines for the start of training.
  std::vector<std::string> Lines() const;
  // Compares the training speed of the cluster with the exchange times. Returns log lines once, as
  // soon as the time of an iteration is known. Throws ScheduleTooShort with one line that includes
  // the remedies.
  std::vector<std::string> Check(const StartProgress& progress);

 private:
  const std::vector<ExpectedSegment> segments_;
  const ExpectedSolvers solvers_;
  bool checked_ = false;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_START_CHECK_H_
