// Workers that step together (strategy allreduce): a step lasts as long as that of the slowest
// worker, and then an allreduce in a ring,
//   2 (N - 1) (bytes / N / rate + delay)
// with the headers of packets in `bytes`. With a merge rule, workers go on by themselves between
// merges, and only a merge waits and communicates. What a real run hides behind its backward pass
// is not hidden here.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "device/kernel.h"
#include "simulate/simulation_core.h"
#include "strategy/merge_kernels.h"
#include "train/divide_batch.h"

namespace millrace::inline simulate {
namespace {

class SynchronousSimulation : public SimulationCore {
 public:
  SynchronousSimulation(const SolverConfig& solver, const SimulationOptions& given,
                        const AllreducePlan& plan)
      : SimulationCore(solver, given),
        merge_(plan.MergeOf(given.workers)),
        averages_(plan.averages),
        ready_ns_(given.workers, 0) {
    if (merge_ && given.snapshot_every % merge_->every != 0) {
      RefuseOption("snapshot_every", static_cast<double>(given.snapshot_every),
                   StrCat("a multiple of the ", merge_->every, " iterations between merges"));
    }
    MakeWorkers([&](WorkerConfig* worker) {
      worker->make_strategy = [index = worker->index, workers = given.workers](
                                  WorkerWeights weights) -> std::unique_ptr<SimulatedStrategy> {
        return std::make_unique<SimulatedSynchronous>(std::move(weights), index, workers);
      };
    });
    center_ = weights();
    sum_.resize(center_.size());
    differences_.resize(center_.size());
    if (merge_ && merge_->rule == SynchronousMergeConfig::Rule::kOuter) {
      velocity_.resize(center_.size());
    }
  }

 private:
  void Train() override {
    const int64_t every = merge_ ? merge_->every : 1;
    const int64_t last = config().param.max_iter();
    while (true) {
      // All go on until they have merged.
      if (completed() % every == 0 && Stopped()) return;
      for (int w = 0; w < workers(); ++w) {
        if (!Begin(w)) return;
      }
      double loss = 0;
      for (int w = 0; w < workers(); ++w) loss += FinishCompute(w);
      for (int64_t& at : ready_ns_) at += DurationNs(static_cast<int>(&at - ready_ns_.data()));
      if (!merge_) SumGradients();
      ForAll([this](int w) { worker(w).End(Now()); });
      if ((completed() + 1) % every == 0 || completed() + 1 == last) {
        if (merge_) Merge();
        Meet();
      }
      AdvanceTo(*std::max_element(ready_ns_.begin(), ready_ns_.end()));
      CountIteration(static_cast<float>(loss / workers()));
    }
  }

  // All workers in their threads; returns when they have ended.
  void ForAll(const std::function<void(int w)>& work) {
    std::vector<std::future<void>> done;
    for (int w = 0; w < workers(); ++w) done.push_back(Post(w, [&work, w] { work(w); }));
    for (std::future<void>& each : done) each.get();
  }

  std::vector<float>& gradients(int w) const {
    return static_cast<SimulatedSynchronous&>(worker(w).strategy()).gradients();
  }

  // Gives each worker the sum or the mean of the gradients of all, in the order of the workers.
  void SumGradients() {
    const float share = averages_ ? 1 / static_cast<float>(workers()) : 1;
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    for (int w = 0; w < workers(); ++w) {
      const std::vector<float>& of = gradients(w);
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += share * of[i];
    }
    ForAll([this](int w) { std::copy(sum_.begin(), sum_.end(), gradients(w).begin()); });
  }

  bool IsElastic() const {
    return merge_ && merge_->rule == SynchronousMergeConfig::Rule::kElastic;
  }

  // As SynchronousMergeStrategy does.
  void Merge() {
    const bool elastic = IsElastic();
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    for (int w = 0; w < workers(); ++w) {
      std::vector<float>& of = worker(w).weights();
      RunOnHost(static_cast<int64_t>(sum_.size()),
                TakeDifferences{center_.data(), elastic ? merge_->pull : 0, of.data(),
                                differences_.data()});
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += differences_[i];
    }
    MoveCenter(*merge_, workers(), static_cast<int64_t>(sum_.size()), sum_.data(), velocity_.data(),
               center_.data());
    if (!elastic) TakeCenter();
  }

  void TakeCenter() {
    for (int w = 0; w < workers(); ++w) {
      std::copy(center_.begin(), center_.end(), worker(w).weights().begin());
    }
  }

  // The workers wait for the slowest, and send in a ring.
  void Meet() {
    int64_t at = *std::max_element(ready_ns_.begin(), ready_ns_.end());
    if (several()) {
      const double part = static_cast<double>(sum_.size() * sizeof(float)) / workers();
      const double packets = std::ceil(part / (options().mtu - kIpUdpBytes));
      const double bytes = part + packets * SimulatedNetwork::kOverheadBytes;
      const NetworkModel& model = options().network;
      const int steps = 2 * (workers() - 1);
      at += static_cast<int64_t>(steps * (bytes * 8e3 / model.max_mbps + model.delay_ms * 1e6));
      bytes_sent_ += bytes * steps * workers();
    }
    std::fill(ready_ns_.begin(), ready_ns_.end(), at);
  }

  void MergeAll() override {
    if (!merge_) center_ = weights();
    TakeCenter();
  }

  void ExportShared(RunState* run) const override {
    const double bytes[] = {bytes_sent_};
    AddNumbers("ring_bytes", bytes, run);
    if (!velocity_.empty()) AddArray("velocity", velocity_, run);
  }

  void ExportPart(int w, SolverPart* part) const override {
    if (IsElastic()) AddArray("weights", worker(w).weights(), part);
  }

  void RestoreShared(const StateReader& run) override {
    std::fill(ready_ns_.begin(), ready_ns_.end(), now_ns());
    bytes_sent_ = run.Numbers("ring_bytes", 1)[0];
    center_ = weights();
    if (velocity_.empty()) return;
    const std::span<const float> stored = run.Array("velocity", velocity_.size());
    std::copy(stored.begin(), stored.end(), velocity_.begin());
  }

  void RestorePart(int w, const StateReader& part) override {
    if (!IsElastic()) return;
    const std::span<const float> own = part.Array("weights", worker(w).weights().size());
    std::copy(own.begin(), own.end(), worker(w).weights().begin());
  }

  void ReadMerged(std::vector<float>* merged) override {
    const std::vector<float>& of = merge_ ? center_ : weights();
    std::copy(of.begin(), of.end(), merged->begin());
  }

  void AddTo(SimulationStatus* status) const override {
    status->bytes_sent += static_cast<uint64_t>(bytes_sent_);
  }

  const std::optional<SynchronousMergeConfig> merge_;  // none: gradients are summed
  const bool averages_;                                // gradients; else their sum
  std::vector<int64_t> ready_ns_;                      // by worker: end of its last iteration
  std::vector<float> center_, sum_, differences_, velocity_;
  double bytes_sent_ = 0;
};

}  // namespace

std::unique_ptr<SimulationCore> MakeSynchronousSimulation(const SolverConfig& config,
                                                          const SimulationOptions& options,
                                                          const AllreducePlan& plan) {
  SolverConfig divided = config;
  if (plan.synchronous->divides_batch) DivideBatch(options.workers, &divided.train);
  try {
    return std::make_unique<SynchronousSimulation>(divided, options, plan);
  } catch (const FieldError& error) {
    throw Located(config.source, error);
  }
}

}  // namespace millrace::inline simulate
