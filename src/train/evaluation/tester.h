// The test nets of a run. They use the live weights, or in a cluster the merged weights. On a GPU,
// and where others write the weights during a test, they use a copy that is made before each test.
#ifndef MILLRACE_TRAIN_EVALUATION_TESTER_H_
#define MILLRACE_TRAIN_EVALUATION_TESTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/data_service.h"
#include "nn/net.h"
#include "solver/solver_config.h"
#include "train/evaluation/score_check.h"
#include "train/reporter.h"
#include "weights/param_layout.h"

namespace millrace::inline train {

// All solvers of a process share one set of test nets. The solver that claims a test's iteration
// runs the test while the others train. Thread-safe.
class Tester {
 public:
  // Throws Error if a test of eval_type "detection" has no output of a DetectionEvaluate layer.
  // `layout`: of the train net. `weights`: in host memory, in that order. The nets run on `device`.
  // `shared`: others write the weights during a test. Everything outlives the tester.
  Tester(const SolverConfig& config, const ParamLayout& layout, float* weights, DataService* data,
         Reporter* reporter, Device* device = &HostDevice(), bool shared = false);

  // Loads the weights of layers that the train net does not have, from files as of --weights.
  // Call before the first test.
  void LoadOwnWeights(const std::vector<std::string>& files);

  // Whether a test is due before `iteration` is trained.
  bool Due(int64_t iteration) const;
  // Copies the weights for the test of `iteration`, before others change them.
  void Keep(int64_t iteration);
  // Runs all test nets. If `stop` returns true between batches, abandons the test and returns an
  // empty list.
  std::vector<Evaluation> Run(int64_t iteration, const std::function<bool()>& stop);

  bool empty() const { return nets_.empty(); }

  // Fills the tested weights. Ends early if `stop` returns true.
  using Refresh = std::function<void(const std::function<bool()>& stop)>;
  // Replaces the tested weights by `weights` in host memory, which have the same layout and outlive
  // the tester.
  // `refresh`: called before each test; may be null.
  void BindWeights(float* weights, Refresh refresh = nullptr);
  // The last complete test whose results this node knows.
  std::optional<TestScores> last() const;
  // Its iteration; -1: none. Does not wait for a test in progress.
  int64_t last_iteration() const { return last_iteration_.load(std::memory_order_acquire); }

  // ---- Parts of a test, for distributed evaluation. ----

  int nets() const { return static_cast<int>(nets_.size()); }
  int batches(int net) const { return config_.tests[net].test_iter; }
  // Number of output values per batch.
  size_t outputs(int net) const;
  // Whether an output gives a mean average precision, for which all detections are needed.
  bool has_detections(int net) const { return HasDetections(*nets_[net]); }
  // Number of the last test due up to `iteration`, counted from 0 in the run; -1: none.
  int64_t NumberOf(int64_t iteration) const;
  // Refreshes the tested weights. Call before the parts of a test.
  void RefreshWeights(const std::function<bool()>& stop);
  // Sums over batches [first, first + count) of test `number` of the run, independent of the
  // batches read before. Fewer batches if `stop` returns true.
  TestSums Part(int64_t number, int net, int first, int count, const std::function<bool()>& stop);
  // Means from the sums over a complete test.
  Evaluation Means(int net, const TestSums& sums) const {
    return MeansOf(*nets_[net], sums, version_);
  }
  // Sets last() to the combined results of all nodes.
  void SetLast(TestScores scores);
  // Logs a complete test and returns its means.
  Evaluation Report(int64_t iteration, int net, const TestSums& sums);

 private:
  void RefreshLocked(const std::function<bool()>& stop);

  const SolverConfig& config_;
  const ParamLayout& layout_;
  const ApVersion version_;
  DataService& data_;
  Reporter* const reporter_;
  mutable std::mutex mutex_;
  Refresh refresh_;
  float* weights_;
  Buffer copy_;        // of the weights, in the device's memory; empty: the nets use `weights_`
  int64_t kept_ = -1;  // the iteration for which copy_ was made; -1: none
  std::optional<TestScores> last_;
  std::atomic<int64_t> last_iteration_{-1};
  std::vector<std::unique_ptr<BuiltNet>> nets_;
  std::vector<uint64_t> next_batch_;  // by net: position of its data
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_EVALUATION_TESTER_H_
