#include "train/evaluation/tester.h"

#include <glog/logging.h>

#include <utility>

#include "solver/snapshot.h"
#include "train/train_nets.h"

namespace millrace::inline train {

// Solvers may write the weights meanwhile.
__attribute__((noinline)) void HogwildReadToDevice(const float* weights, const Buffer& copy,
                                                   MemorySpace* memory) {
  memory->CopyFromHost(copy.get(), weights, copy.bytes());
}

Tester::Tester(const SolverConfig& config, const ParamLayout& layout, float* weights,
               DataService* data, Reporter* reporter, Device* device, bool shared)
    : config_(config),
      layout_(layout),
      version_(ApVersionOf(config.param.ap_version())),
      data_(*data),
      reporter_(reporter),
      weights_(weights),
      next_batch_(config.tests.size()) {
  if ((shared || !device->memory().on_host()) && !config.tests.empty()) {
    copy_ = Buffer(device->memory(), layout.size() * sizeof(float));
    device->memory().Fill(copy_.get(), 0, copy_.bytes());
  }
  for (size_t i = 0; i < config.tests.size(); ++i) {
    BuiltNetOptions options = TestNetOptions(config, i, data);
    options.device = device;
    LOG(INFO) << "Creating test net (#" << i << ") specified by " << config.tests[i].origin;
    nets_.push_back(
        std::make_unique<BuiltNet>(config.tests[i].param, config.tests[i].source, options));
    nets_.back()->LogNotices();
    if (config.param.eval_type() == "detection" && !HasDetections(*nets_.back())) {
      throw Located(config.source, FieldError("eval_type", "\"detection\" given, but test net #", i,
                                              " has no output of a DetectionEvaluate layer"));
    }
    nets_.back()->set_debug_info(config.param.debug_info());
    nets_.back()->BindWeights(layout, copy_.get() ? copy_.get<float>() : weights);
  }
}

void Tester::LoadOwnWeights(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    for (const auto& net : nets_) millrace::LoadOwnWeights(file, net.get());
  }
}

void Tester::BindWeights(float* weights, Refresh refresh) {
  std::lock_guard lock(mutex_);
  refresh_ = std::move(refresh);
  weights_ = weights;
  if (copy_.get()) return;
  for (const auto& net : nets_) net->BindWeights(layout_, weights);
}

std::optional<TestScores> Tester::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

void Tester::SetLast(TestScores scores) {
  std::lock_guard lock(mutex_);
  last_ = std::move(scores);
  last_iteration_ = last_->iteration;
}

void Tester::RefreshWeights(const std::function<bool()>& stop) {
  std::lock_guard lock(mutex_);
  RefreshLocked(stop);
}

void Tester::RefreshLocked(const std::function<bool()>& stop) {
  if (refresh_) refresh_(stop);
  // No net has work under way between tests.
  if (copy_.get()) HogwildReadToDevice(weights_, copy_, &nets_.front()->device().memory());
}

bool Tester::Due(int64_t iteration) const {
  const int interval = config_.param.test_interval();
  return !nets_.empty() && interval > 0 && iteration % interval == 0 &&
         (iteration > 0 || config_.param.test_initialization());
}

void Tester::Keep(int64_t iteration) {
  std::lock_guard lock(mutex_);
  if (!copy_.get()) return;
  RefreshLocked([] { return false; });
  kept_ = iteration;
}

std::vector<Evaluation> Tester::Run(int64_t iteration, const std::function<bool()>& stop) {
  std::lock_guard lock(mutex_);
  if (std::exchange(kept_, -1) != iteration) RefreshLocked(stop);
  std::vector<Evaluation> results;
  for (size_t i = 0; i < nets_.size(); ++i) {
    reporter_->BeginTest(iteration, static_cast<int>(i));
    const int batches = config_.tests[i].test_iter;
    const Evaluation result = Evaluate(nets_[i].get(), batches, stop, {}, version_);
    next_batch_[i] += result.batches;
    if (result.batches < batches) {
      reporter_->InterruptTest();
      return {};
    }
    reporter_->Test(iteration, static_cast<int>(i), result);
    results.push_back(result);
  }
  last_ = TestScores{iteration, results};
  last_iteration_ = iteration;
  return results;
}

size_t Tester::outputs(int net) const {
  size_t values = 0;
  for (const BuiltNet::Output& output : nets_[net]->outputs()) values += output.blob->count();
  return values;
}

int64_t Tester::NumberOf(int64_t iteration) const {
  const int interval = config_.param.test_interval();
  if (interval <= 0) return -1;
  return iteration / interval - (config_.param.test_initialization() ? 0 : 1);
}

TestSums Tester::Part(int64_t number, int net, int first, int count,
                      const std::function<bool()>& stop) {
  std::lock_guard lock(mutex_);
  const uint64_t batch = static_cast<uint64_t>(number) * batches(net) + first;
  if (next_batch_[net] != batch) data_.Seek(TestScope(net), batch);
  const TestSums sums = SumBatches(nets_[net].get(), first, count, stop);
  next_batch_[net] = batch + sums.batches;
  return sums;
}

Evaluation Tester::Report(int64_t iteration, int net, const TestSums& sums) {
  const Evaluation result = Means(net, sums);
  reporter_->Test(iteration, net, result);
  return result;
}

}  // namespace millrace::inline train
