// The public class Session: solvers on weights of their own.
#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <utility>

#include "base/registration.h"
#include "cluster/merged_weights.h"
#include "millrace/session.h"
#include "solver/moving_average.h"
#include "solver/solver.h"
#include "solver/stop_conditions.h"
#include "solver/strategy_plan.h"
#include "train/cluster/node_runner.h"
#include "train/evaluation/evaluator.h"
#include "train/net_view.h"
#include "train/one_omp_thread.h"
#include "train/resume.h"
#include "train/run_counters.h"
#include "train/run_setup.h"
#include "train/session/session_options.h"
#include "train/session/session_solvers.h"
#include "train/train_nets.h"

namespace millrace {
namespace {

class SolverSession : public Session {
 public:
  SolverSession(SolverConfig config, const SessionOptions& options)
      : setup_(MakeSetup(std::move(config), options, &processes_)),
        stop_conditions_(setup_->config.param, &setup_->clock),
        gpus_(setup_.get()),
        solvers_(setup_->options.gpus, *setup_->options.solvers),
        losses_(setup_->config.param.average_loss()) {
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
  int64_t iteration() const override { return setup_->weights->clock().global(); }

  std::span<float> weights() override {
    return {host_weights(), static_cast<size_t>(setup_->weights->size())};
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
    if (setup_->gpus() > 0) throw Error("Session::ApplyUpdate: expected a session without GPUs");
    const OneOmpThread one;
    solvers_.first().solver->Update(iteration());
  }
  float learning_rate() const override {
    return setup_->policy.Rate(setup_->weights->clock().claimed());
  }
  void SetSchedule(const caffe::SolverParameter& param) override {
    try {
      setup_->policy = LrPolicy(param);
    } catch (const FieldError& error) {
      throw Error(error.field(), ": ", error.what());
    }
    setup_->policy.ScaleBy(&setup_->rate_scale);
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
    ResumePolicy(*point, &setup_->policy);
    if (!stepped_) {
      setup_->data->Restore("train", {point->state.stream().begin(), point->state.stream().end()});
    }
    setup_->weights->clock().StartAt(point->iteration());
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
        &net, setup_->config.tests[index].test_iter, [] { return false; }, {},
        ApVersionOf(setup_->config.param.ap_version()));
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
    snapshot.current_step = setup_->policy.StepOfState(snapshot.iteration);
    snapshot.format = setup_->config.param.snapshot_format();
    snapshot.seed = setup_->config.seed;
    BuiltNet& net = host_net();
    const auto save = [&](float* weights) {
      net.BindWeights(weights);
      net.ToProto(&snapshot.model, setup_->config.param.snapshot_diff());
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
      save(setup_->weights->data());
    }
    snapshot.streams = setup_->data->Positions("train");
    const int histories = setup_->config.strategy->SolversWithHistory(solvers_.count());
    snapshot.run = setup_->config.strategy->StartRunState(histories, setup_->weights->size());
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
    const std::string& prefix = setup_->config.param.snapshot_prefix();
    const std::string state = WriteSnapshot(prefix, snapshot).state;
    if (node_) WriteNodeState(prefix, setup_->node_config->plan.name, snapshot);
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
  static std::unique_ptr<RunSetup> MakeSetup(SolverConfig config, const SessionOptions& options,
                                             std::unique_ptr<Processes>* processes) {
    const OneOmpThread one;
    const TrainOptions train = TrainOptionsOf(options, config);
    const ShownNet shown{.plain_blobs = BeginsPlain(config.train, options)};
    try {
      return std::make_unique<RunSetup>(std::move(config), train, shown, processes);
    } catch (const std::exception& error) {
      if (*processes) (*processes)->Fail(error.what());
      throw;
    }
  }

  void Build(const SessionOptions& options) {
    const OneOmpThread one;
    past_max_iter_ = options.past_max_iter;
    make_strategy_ = MakeStrategies(ContextOfStrategies());
    if (setup_->node_config) JoinCluster(options);
    solvers_.ForEach([&](SessionSolver* each) {
      each->strategy = make_strategy_(each->index);
      std::unique_ptr<BuiltNet> net = std::move(setup_->nets[each->index]);
      if (!net) net = setup_->MakeNet(each->device, each->index);
      each->solver = std::make_unique<Solver>(setup_->config, setup_->policy, setup_->data.get(),
                                              each->strategy.get(), std::move(net));
      if (setup_->resume) each->Restore(*setup_->resume);
    });
    net_on_host_ = std::move(setup_->nets.back());
    view_ = std::make_unique<NetView>(&host_net(), weights(), setup_->shown->plain_blobs,
                                      options.plain_blobs_on_use ? &setup_->config.train : nullptr);
    MakeTestNets(options);
    if (options.metrics != nullptr) {
      counters_ = std::make_unique<RunCounters>(
          node_ ? node_->cluster().registry() : PartOrNew(options.metrics), host_net().name(),
          &setup_->weights->clock(), ImagesOfStep(), solvers_.count());
    }
  }

  StrategyContext ContextOfStrategies() {
    StrategyContext context = setup_->ContextOfStrategies();
    context.peers_look_ahead = [this] {
      return node_ ? PeersLookAhead(node_->cluster(), setup_->node_config->plan) : 0;
    };
    context.stopped = [this] { return ended_.load(); };
    return context;
  }

  std::optional<SessionStep> StepOnce() {
    const OneOmpThread one;
    if (node_) node_->RethrowIfFailed();
    const int64_t begin_ns = setup_->clock.NowNs();
    // Processes that step together all end after the iteration in which they learn of the end.
    if (ended_ && !processes_) return std::nullopt;
    if (node_) {
      setup_->rate_scale.Set(RateFactor(node_->cluster(), setup_->node_config->plan,
                                        GrowthOf(setup_->config.param.type()),
                                        setup_->adding_solvers()));
    }
    gpus_.Link(node_ ? &node_->cluster() : nullptr);
    const std::optional<SessionStep> step = StepAll();
    gpus_.RethrowIfFailed();
    if (!step) return std::nullopt;
    stepped_ = true;
    const int64_t iteration_ns = setup_->clock.NowNs() - begin_ns;
    max_iteration_ns_ = std::max(max_iteration_ns_, iteration_ns);
    if (stop_conditions_.AfterIteration(setup_->weights->clock().global())) ended_ = true;
    losses_.Add(step->loss);
    if (counters_) {
      counters_->iteration_seconds()->Observe(1e-9 * iteration_ns);
      counters_->Update(losses_.Mean(), 0, {.data_ns = setup_->data->WaitedNs("train")});
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
        each->solver->net().set_debug_info(IsDebugInfoDue(setup_->config.param, *iteration));
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
    gpus_.Unlink();
  }

  // The train net that the program sees, and its weights.
  BuiltNet& host_net() {
    return net_on_host_ ? *net_on_host_ : solvers_.first_on_host()->solver->net();
  }
  float* host_weights() {
    return net_on_host_ ? setup_->weights->data() : solvers_.first_on_host()->strategy->weights();
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
    const int64_t images = host_net().batch_size() * setup_->config.param.iter_size();
    const SynchronousStep* const step = solvers_.first().strategy->synchronous();
    return step != nullptr ? images * step->solvers() : images;
  }

  // Throws Error if `call` would act on weights that are not this session's alone.
  void RefuseOthers(const char* call) {
    if (!node_ && !processes_ && setup_->config.strategy->links_devices &&
        host_weights() == setup_->weights->data()) {
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

  void JoinCluster(const SessionOptions& options) {
    node_ = std::make_unique<NodeRunner>(*setup_->node_config, setup_->Replica());
    node_->Join(options.join_seconds);
    merged_ = std::make_unique<MergedWeights>(&node_->cluster(), setup_->weights.get(),
                                              setup_->net->layout());
  }

  void MakeTestNets(const SessionOptions& session) {
    float* const weights = merged_ ? merged_->data() : setup_->weights->data();
    for (size_t i = 0; i < setup_->config.tests.size(); ++i) {
      BuiltNetOptions options = TestNetOptions(setup_->config, i, setup_->test_data.get());
      options.plain_blobs = BeginsPlain(setup_->config.tests[i], session);
      options.keep_activations = session.plain_blobs_on_use;
      tests_.push_back(std::make_unique<BuiltNet>(setup_->config.tests[i].param,
                                                  setup_->config.tests[i].source, options));
      tests_.back()->LogNotices();
      tests_.back()->set_debug_info(setup_->config.param.debug_info());
      tests_.back()->BindWeights(host_net().layout(), weights);
      for (const std::string& file : setup_->weight_files) {
        LoadOwnWeights(file, tests_.back().get());
      }
      test_views_.push_back(std::make_unique<NetView>(
          tests_.back().get(), std::span<float>(), options.plain_blobs,
          session.plain_blobs_on_use ? &setup_->config.tests[i] : nullptr));
    }
  }

  std::unique_ptr<Processes> processes_;  // null: no other process steps with this one
  const std::unique_ptr<RunSetup> setup_;
  StopConditions stop_conditions_;
  std::unique_ptr<NodeRunner> node_;  // null: no cluster
  std::unique_ptr<MergedWeights> merged_;
  SessionGpus gpus_;
  StrategyMaker make_strategy_;  // with what the strategy shares
  SessionSolvers solvers_;
  std::unique_ptr<BuiltNet> net_on_host_;  // null: a solver has the net that the program sees
  std::unique_ptr<NetView> view_;
  std::vector<std::unique_ptr<BuiltNet>> tests_;
  std::vector<std::unique_ptr<NetView>> test_views_;
  MovingAverage losses_;
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
