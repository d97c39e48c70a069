// The public class Session: solvers on weights of their own.
#include "millrace/session.h"

#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <utility>

#include "base/registration.h"
#include "cluster/merged_weights.h"
#include "data/data_service.h"
#include "solver/moving_average.h"
#include "solver/solver.h"
#include "solver/stop_conditions.h"
#include "solver/strategy_registry.h"
#include "train/cluster/connect_ranks.h"
#include "train/cluster/node_runner.h"
#include "train/divide_batch.h"
#include "train/evaluation/evaluator.h"
#include "train/net_view.h"
#include "train/one_omp_thread.h"
#include "train/resume.h"
#include "train/run_counters.h"
#include "train/run_setup.h"
#include "train/session_gpus.h"
#include "train/session_options.h"
#include "train/session_solvers.h"
#include "train/train_nets.h"

namespace millrace {
namespace {

class SolverSession : public Session {
 public:
  SolverSession(SolverConfig config, const SessionOptions& options)
      : config_(std::move(config)),
        rate_scale_(RateScale::WarmupOf(config_.param.max_iter())),
        policy_(config_.param),
        stop_conditions_(config_.param, &clock_),
        solvers_(DevicesOf(options)) {
    policy_.ScaleBy(&rate_scale_);
    try {
      Build(options);
    } catch (const std::exception& error) {
      if (processes_) processes_->Fail(error.what());
      throw;
    }
  }

  // Under mpirun, the others have an error if this process still trains.
  ~SolverSession() override {
    if (processes_ && !left_) processes_->Fail("its session has ended without Finish");
  }

  std::optional<SessionStep> Step() override {
    try {
      return StepOnce();
    } catch (const std::exception& error) {
      if (node_ && !left_) node_->PublishFailed(std::current_exception());
      // Called while the gradients exist that MPI may still sum.
      if (processes_) processes_->Fail(error.what());
      throw;
    }
  }
  int64_t iteration() const override { return weights_->clock().global(); }

  std::span<float> weights() override {
    return {host_weights(), static_cast<size_t>(weights_->size())};
  }
  std::vector<WeightArray> arrays() const override { return view_->arrays(); }
  const Net& net() const override { return *view_; }
  Net& net() override { return *view_; }
  int test_nets() const override { return static_cast<int>(tests_.size()); }
  Net& test_net(int index) override {
    TestNet(index);
    return *test_views_[index];
  }

  void ApplyUpdate() override {
    RefuseOthers("ApplyUpdate");
    if (gpus_->count() > 0) throw Error("Session::ApplyUpdate: expected a session without GPUs");
    const OneOmpThread one;
    solvers_.first().solver->Update(iteration());
  }
  float learning_rate() const override { return policy_.Rate(weights_->clock().claimed()); }
  void SetSchedule(const caffe::SolverParameter& param) override {
    try {
      policy_ = LrPolicy(param);
    } catch (const FieldError& error) {
      throw Error(error.field(), ": ", error.what());
    }
    policy_.ScaleBy(&rate_scale_);
  }
  void OnGradients(std::function<void()> call) override {
    SessionSolver* const on_host = solvers_.first_on_host();
    if (on_host != nullptr) return on_host->solver->OnGradients(std::move(call));
    if (call) throw Error("Session::OnGradients: expected a solver on a processor");
  }
  void Restore(const std::string& snapshot) override {
    RefuseOthers("Restore");
    const OneOmpThread one;
    const std::unique_ptr<ResumePoint> point = LoadOwnResumePoint(snapshot, "").point;
    MergeAll();
    CopyModel(point->model_path, &host_net());
    solvers_.ForEach([&](SessionSolver* each) { each->Restore(*point); });
    ResumePolicy(*point, &policy_);
    if (!stepped_) {
      data_->Restore("train", {point->state.stream().begin(), point->state.stream().end()});
    }
    weights_->clock().StartAt(point->iteration());
    ended_ = false;
  }

  void SetMemoryData(const std::string& layer, std::span<const float> values,
                     std::span<const float> labels, std::optional<int> test_net) override {
    FindMemoryData(test_net ? TestNet(*test_net) : OnlyTrainNet(), layer).SetData(values, labels);
  }
  void SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums,
                     std::optional<int> test_net) override {
    FindMemoryData(test_net ? TestNet(*test_net) : OnlyTrainNet(), layer).SetData(datums);
  }

  std::vector<TestOutput> Test(int index) override {
    BuiltNet& net = TestNet(index);
    const OneOmpThread one;
    MergeAll();
    if (merged_ && !merged_->Read([this] { return node_->failed(); })) node_->RethrowIfFailed();
    std::vector<TestOutput> outputs;
    const Evaluation result = Evaluate(
        &net, config_.tests[index].test_iter, [] { return false; }, {},
        ApVersionOf(config_.param.ap_version()));
    for (const OutputMean& output : result.outputs) outputs.push_back({output.name, output.mean});
    if (stop_conditions_.AfterTest(iteration(), index, MeanOutputs(result))) ended_ = true;
    return outputs;
  }

  std::string Snapshot() override {
    const SynchronousStep* const step = solvers_.first().strategy->synchronous();
    if (step != nullptr && !step->merged()) {
      throw Error("Session::Snapshot: the solvers have not merged at iteration ", iteration(),
                  ", expected a call after an iteration that merges (strategy.param every)");
    }
    MergeAll();
    millrace::Snapshot snapshot;
    snapshot.iteration = iteration();
    snapshot.current_step = policy_.StepOfState(snapshot.iteration);
    snapshot.format = config_.param.snapshot_format();
    snapshot.seed = config_.seed;
    BuiltNet& net = host_net();
    const auto save = [&](float* weights) {
      net.BindWeights(weights);
      net.ToProto(&snapshot.model, config_.param.snapshot_diff());
      net.BindWeights(host_weights());
    };
    if (merged_) {
      const bool whole =
          merged_->Read([this] { return node_->failed(); }, [&] { save(merged_->data()); });
      if (!whole) {
        node_->RethrowIfFailed();
        throw Error("the merged weights were not read completely: no snapshot is written");
      }
    } else {
      save(weights_->data());
    }
    snapshot.streams = data_->Positions("train");
    const int histories = SolversWithHistory(config_.param, solvers_.count());
    snapshot.run = StartRunState(config_.param, histories, weights_->size());
    snapshot.histories.resize(histories);
    snapshot.parts.resize(histories);
    solvers_.ForEach([&](SessionSolver* each) {
      if (each->index >= histories) return;
      SolverPart part;
      each->strategy->ExportState(&part);
      snapshot.parts[each->index] = std::make_shared<const SolverPart>(std::move(part));
      snapshot.histories[each->index] =
          std::make_shared<const History>(each->solver->ExportHistory());
    });
    const std::string& prefix = config_.param.snapshot_prefix();
    const std::string state = WriteSnapshot(prefix, snapshot).state;
    if (node_) WriteNodeState(prefix, node_->node_config().plan.name, snapshot);
    return state;
  }

  bool is_leader() const override {
    if (processes_) return processes_->rank() == 0;
    return !node_ || node_->cluster().is_leader();
  }
  void Finish() override {
    if (std::exchange(left_, true)) return;
    MergeAll();
    if (node_) node_->Finish(max_iteration_ns_);
    if (processes_) processes_->Finish();
  }
  void Leave() override {
    if (std::exchange(left_, true)) return;
    MergeAll();
    if (node_) node_->Leave();
    if (processes_) processes_->Fail("it has left the run");
  }

 private:
  void Build(const SessionOptions& options) {
    const OneOmpThread one;
    LogNotices(config_);
    CheckSessionOptions(options, config_);
    config_.gpu = GpuSettingsFor(options.precision);
    past_max_iter_ = options.past_max_iter;
    std::unique_ptr<NodeConfig> node_config = FindHostNodeConfig(ClusterPart(options));
    if (IsSynchronous(config_)) {
      ConnectRanks(ClusterPart(options), false, &config_, &processes_);
      if (DividesBatch(config_)) {
        DivideBatch(solvers_.count() * (processes_ ? processes_->size() : 1), &config_.train);
      }
    }
    Resume(options, node_config.get());
    data_ = std::make_unique<DataService>(
        TrainData(options, solvers_.count(), node_config.get(), processes_.get(), config_));
    test_data_ = std::make_unique<DataService>(DataOptions{.seed = config_.seed});
    if (resume_) {
      data_->Restore("train", {resume_->state.stream().begin(), resume_->state.stream().end()});
    }
    CheckNetTypes(config_);
    BuiltNetOptions net_options = TrainNetOptions(config_, data_.get());
    net_options.keep_activations = true;  // net() shows them
    net_options.plain_blobs = BeginsPlain(config_.train, options);
    auto net = std::make_unique<BuiltNet>(config_.train.param, config_.train.source, net_options);
    net->LogNotices();
    CheckSampled(config_, *data_);
    FillWeights(net.get(), options);
    if ((node_config || solvers_.count() > 1) && !IsSynchronous(config_)) {
      RefuseSynchronizedLayers(config_);
    }
    gpus_ = std::make_unique<SessionGpus>(solvers_.gpus(), weights_.get(),
                                          LinksDevices(config_.param), &clock_);
    make_strategy_ = MakeStrategies(ContextOfStrategy(node_config != nullptr));
    if (node_config) JoinCluster(std::move(node_config), *net, options);
    solvers_.ForEach([&](SessionSolver* each) {
      each->strategy = make_strategy_(each->index);
      std::unique_ptr<BuiltNet> own =
          each == solvers_.first_on_host()
              ? std::move(net)
              : std::make_unique<BuiltNet>(
                    config_.train.param, config_.train.source,
                    TrainNetOptions(config_, data_.get(), each->device, each->index));
      CheckRuleFor(config_, &own->queue());
      each->solver = std::make_unique<Solver>(config_, policy_, data_.get(), each->strategy.get(),
                                              std::move(own));
      if (resume_) each->Restore(*resume_);
    });
    net_on_host_ = std::move(net);
    view_ = std::make_unique<NetView>(&host_net(), weights(), net_options.plain_blobs,
                                      options.plain_blobs_on_use ? &config_.train : nullptr);
    MakeTestNets(options);
    if (options.metrics != nullptr) {
      counters_ = std::make_unique<RunCounters>(
          node_ ? node_->cluster().registry() : PartOrNew(options.metrics), host_net().name(),
          &weights_->clock(), ImagesOfStep(), solvers_.count());
    }
  }

  StrategyContext ContextOfStrategy(bool in_cluster) {
    StrategyContext context;
    context.config = &config_;
    context.weights = weights_.get();
    context.solvers = solvers_.count();
    context.replica_of = [this](int index) { return gpus_->ReplicaOf(index); };
    context.clock = &clock_;
    context.in_cluster = in_cluster;
    context.processes = processes_.get();
    context.has_peers = [this] { return node_ && !node_->cluster().alone(); };
    context.stopped = [this] { return ended_.load(); };
    if (resume_) context.state = resume_->merge_state();
    return context;
  }

  std::optional<SessionStep> StepOnce() {
    const OneOmpThread one;
    if (node_) node_->RethrowIfFailed();
    const int64_t begin_ns = clock_.NowNs();
    // Processes that step together all end after the iteration in which they learn of the end.
    if (ended_ && !processes_) return std::nullopt;
    if (node_) {
      rate_scale_.Set(RateFactor(node_->cluster(), node_->node_config().plan, config_.param));
    }
    gpus_->Link(node_ ? &node_->cluster() : nullptr);
    const std::optional<SessionStep> step = StepAll();
    gpus_->RethrowIfFailed();
    if (!step) return std::nullopt;
    stepped_ = true;
    const int64_t iteration_ns = clock_.NowNs() - begin_ns;
    max_iteration_ns_ = std::max(max_iteration_ns_, iteration_ns);
    if (stop_conditions_.AfterIteration(weights_->clock().global())) ended_ = true;
    losses_.Add(step->loss);
    if (counters_) {
      counters_->iteration_seconds()->Observe(1e-9 * iteration_ns);
      counters_->Update(losses_.Mean(), 0, {.data_ns = data_->WaitedNs("train")});
    }
    return step;
  }

  // An iteration of each solver; none if all have been handed out.
  std::optional<SessionStep> StepAll() {
    std::vector<std::optional<StepResult>> steps(solvers_.count());
    solvers_.ForEach([&](SessionSolver* each) {
      const std::optional<int64_t> iteration =
          past_max_iter_ ? each->strategy->Claim(std::numeric_limits<int64_t>::max())
                         : each->solver->Claim();
      if (!iteration) return;
      if (each->index == 0) {
        each->solver->net().set_debug_info(IsDebugInfoDue(config_.param, *iteration));
      }
      steps[each->index] = each->solver->Compute(*iteration);
    });
    std::optional<SessionStep> last;
    double losses = 0;
    int count = 0;
    for (const std::optional<StepResult>& step : steps) {
      if (!step) continue;
      losses += step->loss;
      ++count;
      if (!last || step->iteration > last->iteration) {
        last = SessionStep{step->iteration, 0, step->rate};
      }
    }
    if (last) last->loss = static_cast<float>(losses / count);
    return last;
  }

  // Brings all progress into the run's weights, while no solver computes.
  void MergeAll() {
    solvers_.Flush();
    gpus_->Unlink();
  }

  // The train net that the program sees, and its weights.
  BuiltNet& host_net() {
    return net_on_host_ ? *net_on_host_ : solvers_.first_on_host()->solver->net();
  }
  float* host_weights() {
    return net_on_host_ ? weights_->data() : solvers_.first_on_host()->strategy->weights();
  }

  // The train net of the solver, for a caller that would act on one of several.
  BuiltNet& OnlyTrainNet() {
    if (solvers_.count() > 1) {
      throw Error("Session::SetMemoryData: this session has ", solvers_.count(),
                  " solvers, each with a train net, expected SessionOptions.solvers 1");
    }
    return solvers_.first().solver->net();
  }

  // Images of an iteration.
  int64_t ImagesOfStep() {
    const int64_t images = host_net().batch_size() * config_.param.iter_size();
    const SynchronousStep* const step = solvers_.first().strategy->synchronous();
    return step != nullptr ? images * step->solvers() : images;
  }

  // Throws Error if `call` would act on weights that are not this session's alone.
  void RefuseOthers(const char* call) {
    if (!node_ && !processes_ && LinksDevices(config_.param) &&
        host_weights() == weights_->data()) {
      return;
    }
    throw Error("Session::", call, ": expected a session without a cluster, with strategy hogwild");
  }

  // Throws Error if there is no such net.
  BuiltNet& TestNet(int index) {
    if (index < 0 || index >= static_cast<int>(tests_.size())) {
      throw Error("test net ", index, ": the solver file has ", tests_.size(), " test nets");
    }
    return *tests_[index];
  }

  void Resume(const SessionOptions& options, const NodeConfig* node_config) {
    if (options.snapshot.empty()) return;
    if (!options.weights.empty()) {
      throw Error(
          "SessionOptions.weights and snapshot: a snapshot brings its own weights; give one "
          "of them");
    }
    resume_ = LoadOwnResumePoint(options.snapshot, node_config ? node_config->plan.name : "").point;
    if (resume_->state.has_seed()) config_.seed = resume_->state.seed();
    ResumePolicy(*resume_, &policy_);
  }

  void FillWeights(BuiltNet* net, const SessionOptions& options) {
    weights_ = WeightBuffer::CreatePrivate(net->layout());
    net->BindWeights(weights_->data());
    weight_files_ =
        FillNewWeights(config_, resume_.get(), options.weights, net, &weights_->clock());
  }

  void JoinCluster(std::unique_ptr<NodeConfig> node_config, const BuiltNet& net,
                   const SessionOptions& options) {
    IterationClock& iterations = weights_->clock();
    node_ = std::make_unique<NodeRunner>(
        std::move(node_config),
        ClusterReplica{.weights = weights_->data(),
                       .size = weights_->size(),
                       .layout_digest = net.layout().Digest(),
                       .examples = ExamplesOf(net.batch_size(), config_.param, solvers_.count()),
                       .start = iterations.start(),
                       .iterations = &iterations,
                       .replica_device = HostReplica(&weights_->locks()),
                       .registry = options.metrics});
    node_->Join(options.join_seconds);
    merged_ = std::make_unique<MergedWeights>(&node_->cluster(), weights_.get(), net.layout());
  }

  void MakeTestNets(const SessionOptions& session) {
    float* const weights = merged_ ? merged_->data() : weights_->data();
    for (size_t i = 0; i < config_.tests.size(); ++i) {
      BuiltNetOptions options = TestNetOptions(config_, i, test_data_.get());
      options.plain_blobs = BeginsPlain(config_.tests[i], session);
      options.keep_activations = session.plain_blobs_on_use;
      tests_.push_back(
          std::make_unique<BuiltNet>(config_.tests[i].param, config_.tests[i].source, options));
      tests_.back()->LogNotices();
      tests_.back()->set_debug_info(config_.param.debug_info());
      tests_.back()->BindWeights(host_net().layout(), weights);
      for (const std::string& file : weight_files_) LoadOwnWeights(file, tests_.back().get());
      test_views_.push_back(
          std::make_unique<NetView>(tests_.back().get(), std::span<float>(), options.plain_blobs,
                                    session.plain_blobs_on_use ? &config_.tests[i] : nullptr));
    }
  }

  const SteadyClock clock_;
  SolverConfig config_;
  RateScale rate_scale_;
  LrPolicy policy_;
  StopConditions stop_conditions_;
  std::unique_ptr<Processes> processes_;  // null: no other process steps with this one
  std::unique_ptr<ResumePoint> resume_;
  std::vector<std::string> weight_files_;  // that the weights were loaded from
  std::unique_ptr<DataService> data_, test_data_;
  std::unique_ptr<WeightBuffer> weights_;
  std::unique_ptr<NodeRunner> node_;  // null: no cluster
  std::unique_ptr<MergedWeights> merged_;
  std::unique_ptr<SessionGpus> gpus_;
  StrategyMaker make_strategy_;  // with what the strategy shares
  SessionSolvers solvers_;
  std::unique_ptr<BuiltNet> net_on_host_;  // null: a solver has the net that the program sees
  std::unique_ptr<NetView> view_;
  std::vector<std::unique_ptr<BuiltNet>> tests_;
  std::vector<std::unique_ptr<NetView>> test_views_;
  MovingAverage losses_{config_.param.average_loss()};
  std::unique_ptr<RunCounters> counters_;  // null: the options give no registry
  int64_t max_iteration_ns_ = 0;
  std::atomic<bool> ended_ = false;  // by a stop condition
  bool left_ = false;
  bool past_max_iter_ = false;
  bool stepped_ = false;  // an iteration has begun
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
