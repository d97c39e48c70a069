// The test nets of a run: on the live weights, or in a cluster on merged ones.
#ifndef MILLRACE_TRAIN_TESTER_H_
#define MILLRACE_TRAIN_TESTER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/data_service.h"
#include "nn/net.h"
#include "solver/solver_config.h"
#include "train/reporter.h"
#include "train/score_check.h"
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

  // Fills the weights that are tested; gives up where the function it is given returns true.
  using Refresh = std::function<void(const std::function<bool()>& stop)>;
  // From now on tests these weights, laid out as those before; they outlive the tester.
  // `refresh`: called before each test, unless null.
  void BindWeights(float* weights, Refresh refresh = nullptr);
  // The last whole test that this node knows the results of.
  std::optional<TestScores> last() const;

  // ---- Tests in parts, which several machines evaluate. ----

  int nets() const { return static_cast<int>(nets_.size()); }
  int batches(int net) const { return config_.tests[net].test_iter; }
  // Values that each batch gives.
  size_t outputs(int net) const;
  // The last test that falls due up to `iteration`, counted from 0 through the run; -1: none.
  int64_t NumberOf(int64_t iteration) const;
  // Before the parts of a test: the weights are to be those of this moment.
  void RefreshWeights(const std::function<bool()>& stop);
  // Batches [first, first + count) of what test `number` of a run reads, whatever was read
  // before; fewer if `stop` says so.
  TestSums Part(int64_t number, int net, int first, int count, const std::function<bool()>& stop);
  // What the sums over a whole test say.
  Evaluation Means(int net, const TestSums& sums) const { return MeansOf(*nets_[net], sums); }
  // This is what all nodes together have found.
  void SetLast(TestScores scores);
  // Logs a whole test.
  Evaluation Report(int64_t iteration, int net, const TestSums& sums);

 private:
  const SolverConfig& config_;
  const ParamLayout& layout_;
  DataService& data_;
  Reporter* const reporter_;
  mutable std::mutex mutex_;
  Refresh refresh_;
  std::optional<TestScores> last_;
  std::vector<std::unique_ptr<Net>> nets_;
  std::vector<uint64_t> next_batch_;  // by net: where its data stands
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_TESTER_H_
