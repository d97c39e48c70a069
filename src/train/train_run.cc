#include "train/train_run.h"

#include <glog/logging.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "cluster/merged_weights.h"
#include "cluster/shard_takeover.h"
#include "cluster/snapshot_duty.h"
#include "cluster/start_check.h"
#include "collective/processes.h"
#include "solver/strategy_registry.h"
#include "train/choose_gpus.h"
#include "train/cluster_session.h"
#include "train/connect_ranks.h"
#include "train/device_links.h"
#include "train/distributed_evaluation.h"
#include "train/divide_batch.h"
#include "train/resume.h"
#include "train/run_counters.h"
#include "train/run_finalizer.h"
#include "train/score_check.h"
#include "train/snapshot_writer.h"
#include "train/solver_worker.h"
#include "train/train_nets.h"

namespace millrace::inline train {
namespace {

void CheckOptions(const TrainOptions& options) {
  const int least = options.gpus.empty() ? 1 : 0;
  if (options.solvers && *options.solvers < least) {
    throw Error("--cpu=", *options.solvers, ": expected at least ", least,
                least == 1 ? " solver" : " solvers");
  }
  if (!options.weights.empty() && !options.snapshot.empty()) {
    throw Error("--weights and --snapshot: a snapshot brings its own weights; give one of them");
  }
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("--shard=", options.shard_index, "/", options.shard_count,
                ": expected i/n with 0 <= i < n");
  }
}

// Fills unset options from the solver file, the node's plan or the processes that train with this
// one (null: none), else with defaults.
TrainOptions Resolved(TrainOptions options, const SolverConfig& config,
                      const NodeConfig* node_config, const Processes* processes) {
  if (options.gpus.empty() && !options.solvers) options.gpus = GpusOf(config);
  if (!options.solvers) {
    options.solvers = !options.gpus.empty() ? 0 : node_config ? node_config->plan.solvers : 1;
  }
  if (options.shard_count == 0 && processes != nullptr) {
    options.shard_index = processes->rank();
    options.shard_count = processes->size();
  }
  if (options.shard_count == 0) {
    options.shard_index = node_config ? node_config->plan.shard : 0;
    options.shard_count = node_config ? node_config->plan.shards : 1;
  }
  return options;
}

double MiB(double bytes) { return bytes / (1 << 20); }

// The parts of a run in order of construction; destroyed in reverse.
class TrainRun {
 public:
  // `processes`: receives those that train with this one, if any; outlives this object.
  TrainRun(const TrainOptions& options, std::unique_ptr<Processes>* processes)
      : node_config_(FindNodeConfig(options)),
        config_(LoadSolverConfig(options.solver_file, options.train_state)),
        synchronous_(IsSynchronous(config_)),
        processes_(Connected(options, processes)),
        options_(Resolved(options, config_, node_config_.get(), processes_)),
        policy_(config_.param),
        stop_conditions_(config_.param, &clock_),
        errors_([this] { stop_ = true; }),
        commands_(options.control, &clock_),
        snapshots_(synchronous_ ? 1 : solvers()) {
    omp_set_num_threads(1);
    for (const std::string& notice : config_.notices) LOG(INFO) << notice;
    for (const std::string& warning : config_.warnings) LOG(WARNING) << warning;
    LogDevices(options_.gpus);
    DivideBatches();
    const std::string& prefix = config_.param.snapshot_prefix();
    if (const int stale = is_first_rank() ? RemoveStaleSnapshotFiles(prefix) : 0; stale > 0) {
      LOG(INFO) << "Removed " << stale << " temporary files of " << prefix
                << " that killed processes have left";
    }
    writer_ = std::make_unique<SnapshotWriter>(prefix, node_config_ ? node_config_->plan.name : "",
                                               &clock_, [this](int64_t iteration) {
                                                 if (duty_) duty_->Wrote(iteration);
                                               });
    if (!options_.snapshot.empty()) Resume();
    data_ = std::make_unique<DataService>(DataOptions{.seed = config_.seed,
                                                      .shard_index = options_.shard_index,
                                                      .shard_count = options_.shard_count,
                                                      .sampler = config_.param.sampler(),
                                                      .consumers = synchronous_ ? solvers() : 0});
    // Tests use all of their data, whatever the process's shard of the training data.
    test_data_ = std::make_unique<DataService>(DataOptions{.seed = config_.seed});
    if (resume_) {
      data_->Restore("train", {resume_->state.stream().begin(), resume_->state.stream().end()});
    }
    CheckNetTypes(config_);
    CheckSynchronizedLayers();
    MakeNets();
    CheckSampled(config_, *data_);
    MakeWeights();
    make_strategy_ = MakeStrategies(ContextOfStrategies());
    if (!options.metrics.empty() && is_first_rank())
      metrics_ = std::make_unique<MetricsWriter>(options.metrics);
    reporter_ = std::make_unique<Reporter>(config_, options_, clock_, metrics_.get());
    tester_ = std::make_unique<Tester>(config_, net_->layout(), weights_->data(), test_data_.get(),
                                       reporter_.get(),
                                       options_.gpus.empty() ? &HostDevice() : options_.gpus[0]);
    tester_->LoadOwnWeights(weight_files_);
  }

  TrainResult Run() {
    try {
      return RunAll();
    } catch (const std::exception&) {
      if (session_ && session_->cluster().begun())
        session_->PublishFailed(std::current_exception(), true);
      // While the gradients exist that MPI may still sum.
      AbortIfConnected(processes_);
      throw;
    }
  }

 private:
  Processes* Connected(const TrainOptions& options, std::unique_ptr<Processes>* processes) {
    if (!synchronous_) RefuseSeparateRanks(options, config_);
    if (synchronous_) ConnectRanks(options, true, &config_, processes);
    return processes->get();
  }

  TrainResult RunAll() {
    if (node_config_ && !JoinCluster()) {
      TrainResult result;
      result.stopped_early = true;
      return result;
    }
    if (node_config_) UseMergedWeights();
    DistributeEvaluation();
    WatchShards();
    if (node_config_) duty_ = std::make_unique<SnapshotDuty>(DutyPeersOf(cluster()), &clock_);
    SharedRun shared{config_,
                     policy_,
                     *weights_,
                     *data_,
                     *reporter_,
                     *tester_,
                     snapshots_,
                     *writer_,
                     clock_,
                     stop_,
                     snapshot_requested_,
                     make_strategy_,
                     resume_.get(),
                     cluster(),
                     distributed_evaluation_.get(),
                     duty_.get(),
                     &solver_load_,
                     snapshot_weights_.get(),
                     stop_conditions_.empty() ? nullptr : &stop_conditions_};
    LOG(INFO) << "Solver scaffolding done.";
    LOG(INFO) << "Starting Optimization";
    LOG(INFO) << "Solving " << net_->name();
    LOG(INFO) << "Learning Rate Policy: " << config_.param.lr_policy();
    LogWeights();
    const int64_t images =
        net_->batch_size() * config_.param.iter_size() * (synchronous_ ? solvers_of_run() : 1);
    const auto registry = session_ ? cluster()->registry() : PartOrNew(options_.registry);
    reporter_->Watch(registry);
    reporter_->Start(net_->name(), weights_->clock().claimed(), images);
    counters_ = std::make_unique<RunCounters>(registry, Title(), &weights_->clock(), images);

    if (!options_.gpus.empty()) LinkGpus(registry);
    stop_conditions_.Start();
    std::vector<std::unique_ptr<SolverWorker>> workers;
    for (int i = 0; i < solvers(); ++i) {
      workers.push_back(std::make_unique<SolverWorker>(i, shared, std::move(nets_[i])));
    }
    RunThreads(workers);
    // Solvers that step together also stop if another process is told to, or has met a condition.
    if (synchronous_ && weights_->clock().claimed() < config_.param.max_iter() &&
        stop_conditions_.reason().empty()) {
      Stop();
    }
    if (links_) EndLinks();
    reporter_->Finish();
    if (!stopped_ && !errors_.failed()) EndByCondition();
    if (links_) SaveIfGpuFailed(workers);
    errors_.RethrowIfFailed();
    TrainResult result = Finish(workers[0].get());
    if (session_) session_->Answer();
    return result;
  }

  void Resume() {
    Resumption resumption =
        LoadOwnResumePoint(options_.snapshot, node_config_ ? node_config_->plan.name : "");
    resume_ = std::move(resumption.point);
    if (resume_->state.has_seed()) config_.seed = resume_->state.seed();
    const std::string notice = resumption.is_own ? ResumeNotice(*resume_, solvers()) : "";
    if (!notice.empty()) LOG(INFO) << notice;
  }

  bool is_first_rank() const { return processes_ == nullptr || processes_->rank() == 0; }
  // Solvers of all processes that train with this one.
  int solvers_of_run() const { return solvers() * (processes_ ? processes_->size() : 1); }

  void DivideBatches() {
    if (!DividesBatch(config_)) return;
    DivideBatch(solvers_of_run(), &config_.train);
  }

  // Layers that are `synchronized` need solvers that step together, or one that is alone.
  void CheckSynchronizedLayers() const {
    if (synchronous_ || (solvers() == 1 && !node_config_ && options_.shm.empty())) return;
    RefuseSynchronizedLayers(config_);
  }

  // Solvers of this process: first those on GPUs, then those on CPUs.
  int solvers() const { return gpus() + *options_.solvers; }
  int gpus() const { return static_cast<int>(options_.gpus.size()); }

  // Makes the nets of all GPUs and of one solver on CPUs, so that what one of them lacks is known
  // before anything is trained. Other solvers on CPUs make theirs themselves.
  void MakeNets() {
    LOG(INFO) << "Creating training net from " << config_.train.origin;
    nets_.resize(solvers());
    for (int i = 0; i < std::min(solvers(), gpus() + 1); ++i) {
      Device& device = i < gpus() ? *options_.gpus[i] : HostDevice();
      nets_[i] = std::make_unique<BuiltNet>(config_.train.param, config_.train.source,
                                            TrainNetOptions(config_, data_.get(), &device));
      if (i == 0) nets_[i]->LogNotices();
      CheckRuleFor(config_, &nets_[i]->queue());
    }
    net_ = nets_[*options_.solvers > 0 ? gpus() : 0].get();
  }

  // The strategy of the solver file as text: equal for equal strategies.
  std::string StrategyText() const {
    caffe::StrategyParameter parts = config_.param.strategy();
    parts.clear_type();
    const std::string text = parts.ShortDebugString();
    return config_.param.strategy().type() + (text.empty() ? "" : StrCat(" { ", text, " }"));
  }

  // Fills, loads or resumes new weights. Weights of a running training are used as they are.
  void MakeWeights() {
    weights_ = options_.shm.empty()
                   ? WeightBuffer::CreatePrivate(net_->layout())
                   : WeightBuffer::JoinTraining(options_.shm, net_->layout(), {}, StrategyText());
    for (Device* gpu : options_.gpus) {
      gpu_weights_.push_back(std::make_unique<DeviceWeights>(gpu, weights_->size()));
    }
    // Without solvers on CPUs, the first GPU's net fills its own array, which the host then copies.
    const bool on_host = *options_.solvers > 0;
    net_->BindWeights(on_host ? weights_->data() : gpu_weights_[0]->data());
    if (!weights_->created()) {
      if (node_config_) {
        throw Error("--shm=", options_.shm,
                    ": joins a run that has its segments: --topology does not apply");
      }
      if (resume_ || !options_.weights.empty()) {
        throw Error("--shm=", options_.shm,
                    ": joins a run that has its weights: --weights and --snapshot do not apply");
      }
      LOG(INFO) << "Joined the run at /dev/shm/" << options_.shm << " at iteration "
                << weights_->clock().claimed();
      return;
    }
    net_->FillWeights();
    if (resume_) {
      CopyModel(resume_->model_path, net_);
      weights_->clock().StartAt(resume_->iteration());
    } else {
      weight_files_ = options_.weights;
      if (weight_files_.empty()) {
        weight_files_.assign(config_.param.weights().begin(), config_.param.weights().end());
      }
      for (const std::string& file : weight_files_) {
        LOG(INFO) << "Finetuning from " << file;
        LoadWeights(file, net_);
      }
      if (!weight_files_.empty()) LogLayersWithoutSavedWeights(*net_);
    }
    if (!on_host) gpu_weights_[0]->CopyToHost(weights_->data());
    if (!node_config_) weights_->Publish();
  }

  // Links the replicas of the GPUs to the host's. Returns when they have its weights, or when the
  // run has been stopped or has failed.
  void LinkGpus(const std::shared_ptr<MetricsRegistry>& registry) {
    DeviceLinksConfig config;
    config.host = weights_.get();
    for (const auto& each : gpu_weights_) config.devices.push_back(each.get());
    config.cluster = cluster();
    config.clock = &clock_;
    config.sink = &errors_;
    config.solvers = *options_.solvers > 0 ? &solver_load_ : nullptr;
    config.max_bytes_per_second = options_.gpu_max_mbps * 1e6 / 8;
    config.registry = registry;
    links_ = std::make_unique<DeviceLinks>(config);
    while (!links_->in_sync() && !stop_) {
      if (commands_.Next(1) == RunCommand::kStop) Stop();
    }
  }

  // Called when no command has stopped the run: whether a condition has ended it before its last
  // iteration. What follows may be stopped by commands.
  void EndByCondition() {
    if (session_) {
      FollowEarlyEnd();
    } else if (weights_->clock().global() < config_.param.max_iter()) {
      const std::string reason = stop_conditions_.reason();
      condition_met_ = !reason.empty();
      if (condition_met_) LOG(INFO) << "Stop condition " << reason;
    }
    stop_ = false;
  }

  // In a cluster, conditions of the leader end the run for all nodes, at the iteration that the
  // leader publishes.
  void FollowEarlyEnd() {
    if (condition_met_) return;
    TerminationDetector& termination = session_->termination();
    std::optional<TerminationDetector::EarlyEnd> end = termination.FindEarlyEnd();
    const std::string reason = stop_conditions_.reason();
    const int64_t claimed = weights_->clock().claimed();
    if (!end && !reason.empty() && claimed < config_.param.max_iter()) end = {claimed, reason};
    if (!end) return;
    LOG(INFO) << "Stop condition " << OneLine(end->reason);
    condition_met_ = stop_ = true;
    end_iteration_ = end->iteration;
    termination.PublishEarlyEnd(*end);
  }

  // Brings the progress of the GPUs into the host's replica: after a failure, that of the others,
  // if it takes only a moment.
  void EndLinks() {
    constexpr int64_t kAfterFailureNs = 2'000'000'000;
    links_->Leave();
    const int64_t begin_ns = clock_.NowNs();
    while (!links_->left()) {
      if (errors_.failed() && clock_.NowNs() - begin_ns > kAfterFailureNs) break;
      if (session_) session_->LogFailures();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    links_->Stop();
  }

  // In a cluster, the other nodes have the weights.
  void SaveIfGpuFailed(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
    if (session_) return;
    try {
      errors_.RethrowIfFailed();
    } catch (const DeviceError& failure) {
      const int64_t iteration = weights_->clock().global();
      std::optional<Snapshot> snapshot;
      for (const auto& worker : workers) {
        if (!snapshot) snapshot = worker->FailureSnapshot(iteration, weights_->data());
      }
      if (!snapshot) return;
      LOG(ERROR) << failure.what() << "; saving the weights of the host at iteration " << iteration;
      try {
        WriteLast(iteration, std::move(snapshot));
      } catch (const Error& error) {
        LOG(ERROR) << error.what();
      }
    } catch (const std::exception&) {
      // Not of a GPU: as without one, the snapshots written before remain.
    }
  }

  // Returns false if the run was stopped before this node had the run's weights.
  bool JoinCluster() {
    for (const std::string& notice : node_config_->plan.notices) LOG(INFO) << notice;
    for (const std::string& warning : node_config_->plan.warnings) LOG(WARNING) << warning;
    MakeStartCheck();
    IterationClock& iterations = weights_->clock();
    session_ = std::make_unique<ClusterSession>(
        *node_config_,
        ClusterReplica{.weights = weights_->data(),
                       .size = weights_->size(),
                       .layout_digest = net_->layout().Digest(),
                       .start = iterations.start(),
                       .iterations = &iterations,
                       .clock = &clock_,
                       .sink = &errors_,
                       .replica_device = HostReplica(&weights_->locks()),
                       .solvers = &solver_load_,
                       .registry = options_.registry},
        &commands_);
    if (!session_->Join()) return false;
    weights_->Publish();
    return true;
  }

  void MakeStartCheck() {
    const caffe::SolverParameter& solver = config_.param;
    const bool plain = solver.type() == "SGD" && !solver.momentum_lookahead();
    start_check_ = std::make_unique<StartCheck>(
        ExpectSegments(node_config_->topology, node_config_->plan, weights_->size()),
        ExpectedSolvers{.momentum = plain ? solver.momentum() : 0,
                        .local = solver.strategy().type() == "local"});
    for (const std::string& line : start_check_->Lines()) LOG(INFO) << line;
  }

  // Ends the run if its nodes cannot learn from each other. A node that joins late and a resumed
  // run check the whole schedule as well.
  void CheckStart(double seconds) {
    try {
      for (const std::string& line : start_check_->Check(solvers(), weights_->clock().own(),
                                                         seconds, config_.param.max_iter())) {
        LOG(INFO) << line;
      }
    } catch (const Error&) {
      errors_.Report(std::current_exception());
    }
  }

  // Null without a cluster.
  Cluster* cluster() { return session_ ? &session_->cluster() : nullptr; }

  void UseMergedWeights() {
    const ParamLayout& layout = net_->layout();
    snapshot_weights_ = std::make_unique<MergedWeights>(cluster(), weights_.get(), layout);
    if (tester_->empty()) return;
    test_weights_ = std::make_unique<MergedWeights>(cluster(), weights_.get(), layout);
    tester_->BindWeights(test_weights_->data(),
                         [this](const std::function<bool()>& stop) { test_weights_->Read(stop); });
  }

  void DistributeEvaluation() {
    if (!node_config_ || !node_config_->plan.distributed_evaluation || tester_->empty()) return;
    if (!DistributedEvaluation::Fits(*tester_)) {
      LOG(INFO)
          << "The test nets have too many outputs, or detections, or no batches, to divide tests "
             "over the nodes";
      return;
    }
    distributed_evaluation_ = std::make_unique<DistributedEvaluation>(
        tester_.get(), TestPeersOf(cluster()), &clock_, [this] { return Stopped(0); });
    distributed_evaluation_->Join(weights_->clock().claimed());
  }

  // Watches for absent shards, if this node reads the shard that the topology assigns to it.
  void WatchShards() {
    if (!node_config_ || node_config_->plan.shards == 1) return;
    const NodePlan& plan = node_config_->plan;
    if (options_.shard_count != static_cast<uint64_t>(plan.shards) ||
        options_.shard_index != static_cast<uint64_t>(plan.shard)) {
      return;
    }
    std::vector<ShardTakeover::Reader> readers;
    for (const TopologyNode& node : node_config_->topology.nodes) {
      readers.push_back({node.name, static_cast<uint64_t>(node.shard)});
    }
    takeover_ = std::make_unique<ShardTakeover>(
        PresencePeersOf(cluster(), &session_->failure_detector()), std::move(readers),
        [this](const std::vector<uint64_t>& absent) { data_->SetAbsentShards(absent); }, &clock_);
  }

  // Whether the run is to stop. After the solvers have ended, when only the main thread calls this,
  // also waits up to `ms` ms for a command.
  bool Stopped(int ms) {
    if (solvers_ended_ && !stop_ && commands_.Next(ms) == RunCommand::kStop) Stop();
    return stop_;
  }
  void Stop() { stop_ = stopped_ = true; }

  StrategyContext ContextOfStrategies() {
    StrategyContext context;
    context.config = &config_;
    context.weights = weights_.get();
    context.solvers = solvers();
    context.replica_of = [this](int index) {
      return index < gpus() ? gpu_weights_[index].get() : nullptr;
    };
    context.clock = &clock_;
    context.in_cluster = node_config_ != nullptr;
    context.weights_are_shared = !options_.shm.empty();
    context.processes = processes_;
    context.has_peers = [this] { return session_ && !session_->cluster().alone(); };
    context.stopped = [this] { return stop_.load(); };
    return context;
  }

  // Title of the counter file: net, cluster and node.
  std::string Title() const {
    return node_config_ ? StrCat(net_->name(), " on ", node_config_->topology.name, "/",
                                 node_config_->plan.name)
                        : net_->name();
  }

  void LogWeights() const {
    const double weight_bytes = static_cast<double>(weights_->size()) * sizeof(float);
    for (const Device* gpu : options_.gpus) {
      LOG(INFO) << "A solver on " << gpu->name() << ", on a replica in its memory";
    }
    if (*options_.solvers == 0) return;
    const int slots = UpdateRuleRegistry::Get().Create(config_.param, {}, 0)->slots();
    LOG(INFO) << *options_.solvers << (*options_.solvers > 1 ? " solvers" : " solver") << " on "
              << (options_.shm.empty() ? "private" : "shared") << " weights of "
              << MiB(weight_bytes) << " MiB; each adds gradients and history of "
              << MiB((1 + slots) * weight_bytes) << " MiB, and its activations";
  }

  static void LogMemory(const SolverWorker& worker) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    LOG(INFO) << "Peak resident memory " << static_cast<double>(usage.ru_maxrss) / 1024
              << " MiB; activations " << MiB(static_cast<double>(worker.activation_bytes()))
              << " MiB per solver";
  }

  // Longest iteration over all solvers.
  static int64_t LongestNs(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
    int64_t longest = 0;
    for (const auto& worker : workers) longest = std::max(longest, worker->longest_ns());
    return longest;
  }

  void RunThreads(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
    std::atomic<int> running{static_cast<int>(workers.size())};
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < workers.size(); ++i) {
      threads.push_back(std::make_unique<Thread>(
          StrCat("solver-", i),
          [&, worker = workers[i].get()] {
            struct Ended {
              std::atomic<int>& running;
              ~Ended() { --running; }
            } ended{running};
            worker->Run();
          },
          &errors_));
    }
    const double begin = clock_.NowSeconds();
    while (running > 0) {
      if (start_check_ && !stop_) CheckStart(clock_.NowSeconds() - begin);
      counters_->Update(reporter_->loss(), writer_->failures());
      if (session_) session_->failure_detector().Listen();
      if (takeover_ && !stop_) takeover_->Look();
      switch (commands_.Next(stop_ ? 5 : 50)) {
        case RunCommand::kStop:
          LOG(INFO) << "Stopping: each solver finishes its iteration";
          Stop();
          break;
        case RunCommand::kSnapshot:
          snapshot_requested_ = true;
          break;
        case RunCommand::kNone:
          break;
      }
      // A solver that waits for data does not check stop_.
      // Solvers that step together stop together, after an iteration that they still complete.
      if (stop_ && (!synchronous_ || errors_.failed())) data_->Stop();
      if (session_) session_->LogFailures();
      if (errors_.failed()) {
        if (session_) PublishFailed();
        continue;
      }
      if (!stopped_ && session_) FollowEarlyEnd();
      if (stopped_ && session_) session_->PublishStopped();
      const bool at_end = weights_->clock().claimed() >= config_.param.max_iter() || condition_met_;
      if (at_end && !stopped_ && session_)
        session_->termination().PublishTraining(LongestNs(workers));
    }
    for (auto& thread : threads) thread->Join();
    solvers_ended_ = true;
    if (session_) session_->termination().SetLongest(LongestNs(workers));
  }

  TrainResult Finish(SolverWorker* worker) {
    LogMemory(*worker);
    TrainResult result;
    const IterationClock& clock = weights_->clock();
    const bool scheduled = clock.claimed() >= config_.param.max_iter() && !condition_met_;
    const bool complete = !stopped_ && (scheduled || end_iteration_);
    result.iteration = !complete        ? clock.global()
                       : end_iteration_ ? *end_iteration_
                                        : config_.param.max_iter();
    result.loss = reporter_->loss();
    if (session_) {
      FinishInCluster(worker, complete, &result);
    } else if (LastProcess() && config_.param.snapshot_after_train()) {
      Save(worker, weights_->data(), true, &result);
    }
    WriteLast(result.iteration, std::nullopt);
    // A condition has ended the training data as well.
    if (scheduled && !stopped_ && stop_conditions_.reason().empty())
      ReportFinalLoss(worker, result.iteration);
    if (!stopped_ && !session_ && LastTestDue(result.iteration)) {
      result.tests = tester_->Run(result.iteration, [this] { return Stopped(0); });
    }
    result.stopped_early = stopped_ || condition_met_;
    LOG(INFO) << (result.stopped_early ? "Optimization stopped early." : "Optimization Done.");
    return result;
  }

  // A run that a condition has ended tests its final weights in any case.
  bool LastTestDue(int64_t iteration) const {
    if (!condition_met_) return tester_->Due(iteration);
    const std::optional<TestScores> last = tester_->last();
    return !tester_->empty() && !(last && last->iteration == iteration);
  }

  // As Caffe, displays the loss of the final weights. Data positions are saved before it.
  void ReportFinalLoss(SolverWorker* worker, int64_t iteration) {
    const int interval = config_.param.display();
    if (interval <= 0 || iteration % interval != 0) return;
    reporter_->FinalLoss(iteration, worker->FinalLoss());
  }

  // Of several processes on the same weights, the last to end saves them.
  bool LastProcess() {
    const bool last = weights_->StopTraining();
    if (!last) LOG(INFO) << "Other processes train on these weights: the last one saves them";
    return last;
  }

  void Save(SolverWorker* worker, float* weights, bool with_model, TrainResult* result) {
    WriteLast(result->iteration, worker->FinalSnapshot(result->iteration, weights, with_model));
    if (!with_model) return;
    const SnapshotPaths paths = SnapshotPathsOf(config_.param.snapshot_prefix(), result->iteration,
                                                config_.param.snapshot_format());
    result->model = paths.model;
    result->state = paths.state;
  }

  // A stop command ends the retries.
  void WriteLast(int64_t iteration, std::optional<Snapshot> last) {
    writer_->Finish(iteration, std::move(last),
                    [this](int ms) { return commands_.Next(ms) != RunCommand::kStop; });
  }

  // All nodes end a complete schedule together. Of stopped nodes, the final snapshot owner saves.
  void FinishInCluster(SolverWorker* worker, bool complete, TrainResult* result) {
    const int interval = config_.param.snapshot();
    const bool saves = config_.param.snapshot_after_train() ||
                       (complete && interval > 0 && result->iteration % interval == 0);
    RunFinalizer end({.cluster = cluster(),
                      .termination = &session_->termination(),
                      .clock = &clock_,
                      .peers = PeerLabels(*node_config_),
                      .tester = tester_.get(),
                      .distributed_evaluation = distributed_evaluation_.get(),
                      .weights = weights_.get(),
                      .layout = &worker->layout(),
                      .save =
                          [&](float* weights, bool is_leader) {
                            if (saves && LastProcess()) Save(worker, weights, is_leader, result);
                          },
                      .stopped =
                          [this](int ms) {
                            session_->LogFailures();
                            return errors_.failed() || Stopped(ms);
                          }});
    if (complete && end.Run(result->iteration)) result->tests = end.tests();
    if (!stopped_) session_->termination().PublishGone();
    const bool last = session_->Leave(stopped_);
    errors_.RethrowIfFailed();
    if (last && saves && !end.saved() && LastProcess()) {
      Save(worker, weights_->data(), true, result);
    }
    session_->LogFailures();
    result->failure = session_->failures().NotFinite();
    if (result->failure.empty()) result->failure = end.failure();
    if (result->failure.empty() && !result->tests.empty()) {
      result->failure =
          ScoreLoss(end.before(), {result->iteration, result->tests},
                    result->model.empty() ? "the saved model" : "the model at " + result->model);
    }
  }

  // Publishes the failure at once, so that other nodes need not wait for this node's solvers to
  // end.
  void PublishFailed() {
    try {
      errors_.RethrowIfFailed();
    } catch (const std::exception&) {
      session_->PublishFailed(std::current_exception(), false);
    }
  }

  const std::unique_ptr<NodeConfig> node_config_;  // null: no cluster
  SteadyClock clock_;
  SolverConfig config_;
  const bool synchronous_;      // an iteration is a step of all solvers
  Processes* const processes_;  // null: this process is alone
  const TrainOptions options_;
  const LrPolicy policy_;
  StopConditions stop_conditions_;
  std::atomic<bool> stop_{false}, snapshot_requested_{false};
  bool stopped_ = false;                  // by a command
  bool condition_met_ = false;            // a stop condition has ended the run
  std::optional<int64_t> end_iteration_;  // of a cluster's run that a condition has ended
  std::atomic<bool> solvers_ended_{false};
  ErrorSink errors_;
  CommandReader commands_;
  SnapshotCollector snapshots_;
  ThreadLoad solver_load_;
  std::unique_ptr<SnapshotWriter> writer_;
  std::unique_ptr<ResumePoint> resume_;
  std::vector<std::string> weight_files_;  // that new weights were loaded from
  std::unique_ptr<DataService> data_, test_data_;
  std::unique_ptr<WeightBuffer> weights_;
  std::vector<std::unique_ptr<DeviceWeights>> gpu_weights_;
  StrategyMaker make_strategy_;
  std::vector<std::unique_ptr<BuiltNet>> nets_;  // by solver, until the solvers take them
  BuiltNet* net_ = nullptr;                      // one of them, which gave the weights their layout
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Tester> tester_;
  std::unique_ptr<RunCounters> counters_;
  std::unique_ptr<ClusterSession>
      session_;                         // after the weights, which its threads use; may be null
  std::unique_ptr<DeviceLinks> links_;  // null: no GPU
  std::unique_ptr<StartCheck> start_check_;  // null: no cluster
  std::unique_ptr<ShardTakeover> takeover_;  // null: this node reads fixed shards
  std::unique_ptr<MergedWeights> test_weights_, snapshot_weights_;  // null: no cluster
  std::unique_ptr<DistributedEvaluation> distributed_evaluation_;
  std::unique_ptr<SnapshotDuty> duty_;
};

}  // namespace

TrainResult Train(const TrainOptions& options) {
  CheckOptions(options);
  std::unique_ptr<Processes> processes;
  try {
    const TrainResult result = TrainRun(options, &processes).Run();
    if (processes) processes->Finish();
    return result;
  } catch (const std::exception&) {
    AbortIfConnected(processes.get());
    throw;
  }
}

}  // namespace millrace::inline train
