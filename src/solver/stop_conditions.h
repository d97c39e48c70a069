// The stop conditions of this program (millrace/stop_condition.h), by name, and those of a run.
#ifndef MILLRACE_SOLVER_STOP_CONDITIONS_H_
#define MILLRACE_SOLVER_STOP_CONDITIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/part.h"
#include "millrace/stop_condition.h"
#include "proto/caffe.pb.h"

namespace millrace::inline solver {

struct StopConditionEntry {
  PartDescriptor part;
  StopConditionFactory make;
  bool needs_tests = false;
};

using StopConditionRegistry = PartRegistry<StopConditionEntry>;
StopConditionRegistry& StopConditionsByName();

// The conditions of a run: the first that is met ends it. Thread-safe.
class StopConditions {
 public:
  // The conditions that the solver file names. `clock` outlives this object. Throws FieldError
  // relative to the file if one is unknown, or its parameters are wrong, or it needs tests and
  // there are none.
  StopConditions(const caffe::SolverParameter& param, const Clock* clock);

  bool empty() const { return conditions_.empty(); }
  // Training begins; seconds count from here.
  void Start();
  // Return whether the run is to end, because of this iteration or test or an earlier one. Throw
  // Error as conditions do.
  bool AfterIteration(int64_t completed);
  // `outputs`: by test net. A test of the same iteration as the one before is ignored.
  bool AfterTest(int64_t iteration, const std::vector<std::vector<double>>& outputs);
  // The same for one test net alone, always.
  bool AfterTest(int64_t iteration, int net, const std::vector<double>& outputs);
  // Iteration of the last test that AfterTest was given with all nets; -1: none.
  int64_t tested() const { return tested_; }
  // One line that names the condition, and why it is met; "" if none is.
  std::string reason() const;

 private:
  template <typename Ask>
  bool Any(int64_t iteration, Ask ask);

  const Clock& clock_;
  mutable std::mutex mutex_;
  double begin_seconds_;
  std::vector<std::pair<std::string, std::unique_ptr<StopCondition>>> conditions_;  // with names
  std::string reason_;
  std::atomic<int64_t> tested_{-1};  // iteration of the last complete test
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_STOP_CONDITIONS_H_
