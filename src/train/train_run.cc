#include "train/train_run.h"

#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/threads/thread.h"
#include "collective/processes.h"
#include "metrics/tensorboard_writer.h"
#include "solver/strategy_plan.h"
#include "train/cluster/cluster_training.h"
#include "train/cluster/connect_ranks.h"
#include "train/device_links.h"
#include "train/run_completion.h"
#include "train/run_counters.h"
#include "train/run_setup.h"
#include "train/run_stop.h"
#include "train/snapshot_writer.h"
#include "train/solver_worker.h"

namespace millrace::inline train {
namespace {

// A run: its set-up, and the parts that train with it, in order of construction; destroyed in
// reverse.
class TrainRun {
 public:
  // `processes`: receives those that train with this one, if any; outlives this object.
  TrainRun(const TrainOptions& options, std::unique_ptr<Processes>* processes)
      : setup_(LoadSolverConfig(options.solver_file, options.train_state), options, std::nullopt,
               processes),
        stop_conditions_(setup_.config.param, &setup_.clock),
        commands_(options.control, &setup_.clock),
        stop_(&commands_),
        errors_([this] { stop_.stop = true; }),
        snapshots_(setup_.config.strategy->SolversWithHistory(setup_.solvers())),
        writer_(setup_.config.param.snapshot_prefix(), setup_.part_name(), &setup_.clock,
                [this](int64_t iteration, const std::string& state) {
                  if (cluster_ && cluster_->duty()) cluster_->duty()->OnWritten(iteration);
                  RunObserver* const observer = setup_.options.observer;
                  if (observer != nullptr) observer->Saved(iteration, state);
                }),
        make_strategy_(MakeStrategies(ContextOfStrategies())) {
    setup_.policy.ReplaceBy(&commands_.requests().learning_rate());
    OpenSinks(options);
    std::vector<MetricsSink*> sinks;
    for (const auto& sink : sinks_) sinks.push_back(sink.get());
    reporter_ =
        std::make_unique<Reporter>(setup_.config, setup_.options, setup_.clock, std::move(sinks));
    Device* const device =
        setup_.options.gpus.empty() ? &HostDevice() : setup_.options.gpus.front();
    tester_ = std::make_unique<Tester>(setup_.config, setup_.net->layout(), setup_.weights->data(),
                                       setup_.test_data.get(), reporter_.get(), device,
                                       WritesDuringTests());
    tester_->LoadOwnWeights(setup_.weight_files);
  }

  TrainResult Run() {
    try {
      return RunAll();
    } catch (const std::exception&) {
      if (cluster_ && cluster_->cluster().begun())
        cluster_->session().PublishFailed(std::current_exception(), true);
      // Called while the gradients exist that MPI may still sum.
      AbortIfConnected(setup_.processes);
      throw;
    }
  }

 private:
  TrainResult RunAll() {
    if (setup_.node_config && !JoinCluster()) {
      TrainResult result;
      result.stopped_early = !cluster_->session().run_ended();
      return result;
    }
    SharedRun shared = Shared();
    LOG(INFO) << "Solver scaffolding done.";
    LOG(INFO) << "Starting Optimization";
    LOG(INFO) << "Solving " << setup_.net->name();
    LOG(INFO) << "Learning Rate Policy: " << setup_.config.param.lr_policy();
    setup_.LogWeights();
    const int64_t images = setup_.net->batch_size() * setup_.config.param.iter_size() *
                           (setup_.synchronous ? setup_.solvers_of_run() : 1);
    const auto registry =
        cluster_ ? cluster_->cluster().registry() : PartOrNew(setup_.options.registry);
    IterationClock& iterations = setup_.weights->clock();
    reporter_->Watch(registry);
    reporter_->Start(setup_.net->name(), iterations.claimed(), images);
    counters_ = std::make_unique<RunCounters>(registry, setup_.Title(), &iterations, images,
                                              setup_.solvers());
    shared.iteration_seconds = counters_->iteration_seconds();

    const bool on_gpus = !setup_.options.gpus.empty();
    if (on_gpus && setup_.config.strategy->links_devices) LinkGpus(registry);
    stop_conditions_.Start();
    if (!cluster_ && tester_->Due(iterations.claimed())) tester_->Keep(iterations.claimed());
    std::vector<std::unique_ptr<SolverWorker>> workers;
    for (int i = 0; i < setup_.solvers(); ++i) {
      workers.push_back(std::make_unique<SolverWorker>(i, shared, std::move(setup_.nets[i])));
    }
    RunThreads(workers);
    // Solvers that step together also stop if another process is told to, or has met a condition.
    if (setup_.synchronous && iterations.claimed() < setup_.config.param.max_iter() &&
        stop_conditions_.reason().empty()) {
      stop_.Stop();
    }
    if (links_) EndLinks();
    reporter_->Finish();
    if (!stop_.by_command && !errors_.failed()) EndByCondition();
    RunCompletion completion(
        {setup_, stop_, errors_, stop_conditions_, *reporter_, *tester_, writer_, cluster_.get()});
    // The weights of the host are those of the last merge.
    if (on_gpus && !setup_.synchronous) completion.SaveIfGpuFailed(workers);
    errors_.RethrowIfFailed();
    TrainResult result = completion.Run(workers[0].get());
    if (cluster_) cluster_->session().Answer();
    return result;
  }

  void OpenSinks(const TrainOptions& options) {
    if (!setup_.is_first_rank()) return;
    if (!options.metrics.empty()) {
      sinks_.push_back(std::make_unique<MetricsWriter>(options.metrics));
    }
    if (!options.tensorboard.empty()) {
      sinks_.push_back(std::make_unique<TensorboardWriter>(options.tensorboard));
    }
  }

  // Returns false if the run was stopped, or has ended, before this node had its weights.
  bool JoinCluster() {
    const NodePlan& plan = setup_.node_config->plan;
    const Topology& topology = setup_.node_config->topology;
    RunObserver* const observer = setup_.options.observer;
    if (observer != nullptr) observer->Joining(topology.nodes[plan.node].name, topology.name);
    for (const std::string& notice : plan.notices) LOG(INFO) << notice;
    for (const std::string& warning : plan.warnings) LOG(WARNING) << warning;
    cluster_ = std::make_unique<ClusterTraining>(&setup_, &stop_, &errors_, &solver_load_);
    return cluster_->Join(tester_.get());
  }

  SharedRun Shared() {
    SharedRun shared{.config = setup_.config,
                     .policy = setup_.policy,
                     .weights = *setup_.weights,
                     .data = *setup_.data,
                     .reporter = *reporter_,
                     .tester = *tester_,
                     .snapshots = snapshots_,
                     .writer = writer_,
                     .clock = setup_.clock,
                     .stop = stop_.stop,
                     .requests = commands_.requests(),
                     .make_strategy = make_strategy_,
                     .resume = setup_.resume.get(),
                     .load = &solver_load_,
                     .stop_conditions = stop_conditions_.empty() ? nullptr : &stop_conditions_,
                     .first_rank = setup_.is_first_rank()};
    shared.make_net = [this](Device* device, int index) { return setup_.MakeNet(device, index); };
    if (cluster_) {
      shared.cluster = &cluster_->cluster();
      shared.distributed_evaluation = cluster_->distributed_evaluation();
      shared.duty = cluster_->duty();
      shared.merged = cluster_->snapshot_weights();
    }
    return shared;
  }

  // Links the replicas of the GPUs to the host's. Returns when all have the run's weights, or when
  // the run has been stopped or has failed.
  void LinkGpus(const std::shared_ptr<MetricsRegistry>& registry) {
    DeviceLinksConfig config;
    config.host = setup_.weights.get();
    for (const auto& each : setup_.gpu_weights) config.devices.push_back(each.get());
    config.cluster = cluster_ ? &cluster_->cluster() : nullptr;
    config.cluster_device = setup_.cluster_gpu();
    config.clock = &setup_.clock;
    config.sink = &errors_;
    config.solvers = *setup_.options.solvers > 0 ? &solver_load_ : nullptr;
    config.max_bytes_per_second = setup_.options.gpu_max_mbps * 1e6 / 8;
    config.registry = registry;
    links_ = std::make_unique<DeviceLinks>(config);
    while (!links_->in_sync() && !stop_.stop) {
      if (commands_.Next(1) == RunCommand::kStop) stop_.Stop();
    }
  }

  // Brings all progress into the replica on which the cluster works, or the host's: after a failure
  // of a GPU, that of the others, if it takes only a moment.
  void EndLinks() {
    constexpr int64_t kAfterFailureNs = 2'000'000'000;
    links_->Leave();
    const int64_t begin_ns = setup_.clock.NowNs();
    while (!links_->left()) {
      if (errors_.failed() && setup_.clock.NowNs() - begin_ns > kAfterFailureNs) break;
      if (cluster_) cluster_->session().LogFailures();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    links_->Stop();
  }

  // Called when no command has stopped the run: whether a condition has ended it before its last
  // iteration. What follows may be stopped by commands.
  void EndByCondition() {
    if (cluster_) {
      cluster_->FollowEarlyEnd(stop_conditions_);
    } else if (setup_.weights->clock().global() < setup_.config.param.max_iter()) {
      const std::string reason = stop_conditions_.reason();
      stop_.condition_met = !reason.empty();
      if (stop_.condition_met) LOG(INFO) << "Stop condition " << reason;
    }
    stop_.stop = false;
  }

  // Whether others write the host's weights while a solver tests them. In a cluster, tests use
  // merged weights of their own.
  bool WritesDuringTests() const {
    return !setup_.node_config && (setup_.solvers() > 1 || !setup_.options.shm.empty());
  }

  StrategyContext ContextOfStrategies() {
    StrategyContext context = setup_.ContextOfStrategies();
    context.peers_look_ahead = [this] {
      return cluster_ ? PeersLookAhead(cluster_->cluster(), setup_.node_config->plan) : 0;
    };
    context.stopped = [this] { return stop_.stop.load(); };
    return context;
  }

  // Longest iteration over all solvers.
  static int64_t MaxIterationNs(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
    int64_t longest = 0;
    for (const auto& worker : workers) longest = std::max(longest, worker->max_iteration_ns());
    return longest;
  }

  SolverWaits Waits() const {
    return {.data_ns = setup_.data->WaitedNs("train"),
            .processor_ns = solver_load_.Read().waiting_ns};
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
    const double begin = setup_.clock.NowSeconds();
    while (running > 0) {
      counters_->Update(reporter_->loss(), writer_.failures(), Waits());
      if (cluster_) cluster_->Watch(setup_.clock.NowSeconds() - begin);
      if (commands_.Next(stop_.stop ? 5 : 50) == RunCommand::kStop) {
        LOG(INFO) << "Stopping: each solver finishes its iteration";
        stop_.Stop();
      }
      // A solver that waits for data does not check stop_.
      // Solvers that step together stop together, after an iteration that they still complete.
      if (stop_.stop && (!setup_.synchronous || errors_.failed())) setup_.data->Stop();
      if (cluster_) cluster_->Publish(stop_conditions_, MaxIterationNs(workers));
    }
    for (auto& thread : threads) thread->Join();
    stop_.solvers_ended = true;
    if (cluster_) cluster_->session().life().SetLongest(MaxIterationNs(workers));
  }

  RunSetup setup_;
  StopConditions stop_conditions_;
  CommandReader commands_;
  RunStop stop_;
  ErrorSink errors_;
  SnapshotCollector snapshots_;
  ThreadLoad solver_load_;
  SnapshotWriter writer_;
  StrategyMaker make_strategy_;
  std::vector<std::unique_ptr<MetricsSink>> sinks_;  // of the rows
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Tester> tester_;
  std::unique_ptr<RunCounters> counters_;
  // After the weights, which its threads use; null: no cluster.
  std::unique_ptr<ClusterTraining> cluster_;
  std::unique_ptr<DeviceLinks> links_;  // null: no GPU, or a strategy that needs none
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
