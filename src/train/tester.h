// The test nets of a run, on the live weights.
#ifndef MILLRACE_TRAIN_TESTER_H_
#define MILLRACE_TRAIN_TESTER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "data/data_service.h"
#include "nn/net.h"
#include "solver/solver_config.h"
#include "train/reporter.h"
#include "weights/param_layout.h"

namespace millrace {

// One set of test nets serves all solvers of a process: the solver that claims
// a test's iteration runs it, while the others train on. Thread-safe.
class Tester {
 public:
  // `layout` and `weights` are the train net's. Everything outlives the tester.
  Tester(const SolverConfig& config, const ParamLayout& layout, float* weights, DataService* data,
         Reporter* reporter);

  // Whether a test is due before iteration `iteration` is trained.
  bool Due(int64_t iteration) const;
  // Runs all test nets; gives up between batches when `stop` says so, and then
  // returns an empty list.
  std::vector<Evaluation> Run(int64_t iteration, const std::function<bool()>& stop);

  bool empty() const { return nets_.empty(); }

 private:
  const SolverConfig& config_;
  Reporter* const reporter_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Net>> nets_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_TESTER_H_
