#include "train/tester.h"

namespace millrace {

Tester::Tester(const SolverConfig& config, const ParamLayout& layout, float* weights,
               DataService* data, Reporter* reporter)
    : config_(config), reporter_(reporter) {
  for (size_t i = 0; i < config.tests.size(); ++i) {
    NetOptions options;
    options.state = config.tests[i].state;
    options.seed = config.seed;
    options.data = data;
    options.data_scope = Cat("test", i);
    nets_.push_back(std::make_unique<Net>(config.tests[i].param, config.tests[i].source, options));
    nets_.back()->BindWeights(layout, weights);
  }
}

bool Tester::Due(int64_t iteration) const {
  const int interval = config_.param.test_interval();
  return !nets_.empty() && interval > 0 && iteration % interval == 0 &&
         (iteration > 0 || config_.param.test_initialization());
}

std::vector<Evaluation> Tester::Run(int64_t iteration, const std::function<bool()>& stop) {
  std::lock_guard lock(mutex_);
  std::vector<Evaluation> results;
  for (size_t i = 0; i < nets_.size(); ++i) {
    reporter_->BeginTest(iteration, static_cast<int>(i));
    const int batches = config_.tests[i].test_iter;
    const Evaluation result = Evaluate(nets_[i].get(), batches, stop);
    if (result.batches < batches) return {};
    reporter_->Test(iteration, static_cast<int>(i), result);
    results.push_back(result);
  }
  return results;
}

}  // namespace millrace
