// The public class Session: one solver on weights of its own.
#include "millrace/session.h"

#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <utility>

#include "base/registration.h"
#include "cluster/merged_weights.h"
#include "data/data_service.h"
#include "solver/solver.h"
#include "strategy/hogwild.h"
#include "train/evaluator.h"
#include "train/node_runner.h"

namespace millrace {
namespace {

// Makes OpenMP use one thread for this thread's computations; restores the number afterwards.
class OneOmpThread {
 public:
  OneOmpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOmpThread() { omp_set_num_threads(before_); }
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  const int before_;
};

std::unique_ptr<NodeConfig> PlaceOf(const SessionOptions& options) {
  TrainOptions train;
  train.topology = options.topology;
  train.node = options.node;
  return FindPlace(train);
}

DataOptions ShardOf(const SessionOptions& options, const NodeConfig* place, uint64_t seed) {
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("SessionOptions.shard_index: ", options.shard_index, " of ", options.shard_count,
                " shards, expected a smaller number");
  }
  if (options.shard_count > 0) return {seed, options.shard_index, options.shard_count, nullptr};
  if (place != nullptr) {
    return {seed, static_cast<uint64_t>(place->plan.shard),
            static_cast<uint64_t>(place->plan.shards), nullptr};
  }
  return {seed, 0, 1, nullptr};
}

class SolverSession : public Session {
 public:
  SolverSession(SolverConfig config, const SessionOptions& options)
      : config_(std::move(config)), policy_(config_.param) {
    const OneOmpThread one;
    for (const std::string& notice : config_.notices) LOG(INFO) << notice;
    std::unique_ptr<NodeConfig> place = PlaceOf(options);
    Resume(options);
    data_ = std::make_unique<DataService>(ShardOf(options, place.get(), config_.seed));
    test_data_ = std::make_unique<DataService>(DataOptions{config_.seed, 0, 1, nullptr});
    if (resume_) {
      data_->Restore("train", {resume_->state.stream().begin(), resume_->state.stream().end()});
    }
    auto net = std::make_unique<Net>(config_.train.param, config_.train.source,
                                     TrainNetOptions(config_, data_.get()));
    FillWeights(net.get(), options);
    if (place) JoinCluster(std::move(place), *net);
    strategy_ = std::make_unique<HogwildStrategy>(
        weights_.get(), [this] { return node_ && !node_->cluster().alone(); });
    solver_ =
        std::make_unique<Solver>(config_, policy_, data_.get(), strategy_.get(), std::move(net));
    if (resume_) solver_->Restore(*resume_, 0);
    MakeTestNets();
  }

  std::optional<SessionStep> Step() override {
    const OneOmpThread one;
    if (node_) node_->RethrowIfFailed();
    const int64_t begin_ns = clock_.NowNs();
    const std::optional<StepResult> step = solver_->Step();
    if (!step) return std::nullopt;
    longest_ns_ = std::max(longest_ns_, clock_.NowNs() - begin_ns);
    return SessionStep{step->iteration, step->loss, step->rate};
  }
  int64_t iteration() const override { return weights_->clock().global(); }

  std::span<float> weights() override {
    return {weights_->data(), static_cast<size_t>(weights_->size())};
  }
  std::vector<WeightArray> arrays() const override {
    std::vector<WeightArray> arrays;
    for (const ParamEntry& entry : solver_->net().layout().entries()) {
      arrays.push_back({entry.name, entry.shape, entry.offset, entry.count});
    }
    return arrays;
  }
  Net& net() override { return solver_->net(); }

  std::vector<TestOutput> Test(int index) override {
    if (index < 0 || index >= static_cast<int>(tests_.size())) {
      throw Error("test net ", index, ": the solver file has ", tests_.size(), " test nets");
    }
    const OneOmpThread one;
    if (merged_) merged_->Read([this] { return node_->failed(); });
    std::vector<TestOutput> outputs;
    const Evaluation result =
        Evaluate(tests_[index].get(), config_.tests[index].test_iter, [] { return false; });
    for (const OutputMean& output : result.outputs) outputs.push_back({output.name, output.mean});
    return outputs;
  }

  std::string Snapshot() override {
    millrace::Snapshot snapshot;
    snapshot.iteration = iteration();
    snapshot.current_step = policy_.Step(snapshot.iteration);
    snapshot.seed = config_.seed;
    Net& net = solver_->net();
    const auto save = [&] { net.ToProto(&snapshot.model, config_.param.snapshot_diff()); };
    if (merged_) {
      merged_->Read([this] { return node_->failed(); },
                    [&] {
                      net.BindWeights(merged_->data());
                      save();
                      net.BindWeights(weights_->data());
                    });
    } else {
      save();
    }
    snapshot.streams = data_->Positions("train");
    snapshot.histories.push_back(std::make_shared<const History>(solver_->ExportHistory()));
    return WriteSnapshot(config_.param.snapshot_prefix(), snapshot).state;
  }

  bool is_leader() const override { return !node_ || node_->cluster().is_leader(); }
  void Finish() override {
    if (node_ && !std::exchange(left_, true)) node_->Finish(longest_ns_);
  }
  void Leave() override {
    if (node_ && !std::exchange(left_, true)) node_->Leave();
  }

 private:
  void Resume(const SessionOptions& options) {
    if (options.snapshot.empty()) return;
    if (!options.weights.empty()) {
      throw Error(
          "SessionOptions.weights and snapshot: a snapshot brings its own weights; give one "
          "of them");
    }
    resume_ = std::make_unique<ResumePoint>(LoadResumePoint(options.snapshot));
    if (resume_->state.has_seed()) config_.seed = resume_->state.seed();
  }

  void FillWeights(Net* net, const SessionOptions& options) {
    weights_ = WeightBuffer::CreatePrivate(net->layout());
    net->BindWeights(weights_->data());
    net->FillWeights();
    if (resume_) {
      net->CopyWeightsFrom(LoadModel(resume_->model_path), resume_->model_path);
      weights_->clock().StartAt(resume_->iteration());
      return;
    }
    std::vector<std::string> files = options.weights;
    if (files.empty()) files = {config_.param.weights().begin(), config_.param.weights().end()};
    for (const std::string& file : files) LoadWeights(file, net);
  }

  void JoinCluster(std::unique_ptr<NodeConfig> place, const Net& net) {
    IterationClock& iterations = weights_->clock();
    node_ = std::make_unique<NodeRunner>(std::move(place),
                                         ClusterReplica{.weights = weights_->data(),
                                                        .size = weights_->size(),
                                                        .layout_digest = net.layout().Digest(),
                                                        .start = iterations.start(),
                                                        .iterations = &iterations,
                                                        .home = HostReplica(&weights_->locks())});
    node_->Join(kJoinSeconds);
    merged_ = std::make_unique<MergedWeights>(&node_->cluster(), weights_.get(), net.layout());
  }

  void MakeTestNets() {
    float* const weights = merged_ ? merged_->data() : weights_->data();
    for (size_t i = 0; i < config_.tests.size(); ++i) {
      NetOptions options;
      options.state = config_.tests[i].state;
      options.seed = config_.seed;
      options.data = test_data_.get();
      options.data_scope = StrCat("test", i);
      tests_.push_back(
          std::make_unique<Net>(config_.tests[i].param, config_.tests[i].source, options));
      tests_.back()->BindWeights(solver_->net().layout(), weights);
    }
  }

  static constexpr double kJoinSeconds = 60;

  const SteadyClock clock_;
  SolverConfig config_;
  const LrPolicy policy_;
  std::unique_ptr<ResumePoint> resume_;
  std::unique_ptr<DataService> data_, test_data_;
  std::unique_ptr<WeightBuffer> weights_;
  std::unique_ptr<NodeRunner> node_;  // null: no cluster
  std::unique_ptr<MergedWeights> merged_;
  std::unique_ptr<HogwildStrategy> strategy_;
  std::unique_ptr<Solver> solver_;
  std::vector<std::unique_ptr<Net>> tests_;
  int64_t longest_ns_ = 0;
  bool left_ = false;
};

}  // namespace

std::unique_ptr<Session> Session::Open(const std::string& solver_file,
                                       const SessionOptions& options) {
  CheckRegistrations();
  return std::make_unique<SolverSession>(LoadSolverConfig(solver_file), options);
}

std::unique_ptr<Session> Session::OpenText(const std::string& text, const std::string& name,
                                           const SessionOptions& options) {
  CheckRegistrations();
  return std::make_unique<SolverSession>(ParseSolverConfig(text, name, SolverFiles::OnDisk()),
                                         options);
}

}  // namespace millrace
