#include "train/train_run.h"

#include <glog/logging.h>
#include <omp.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/thread.h"
#include "topology/choose_node.h"
#include "topology/start.h"
#include "train/run_board.h"
#include "train/solver_worker.h"

namespace millrace {
namespace {

void CheckOptions(const TrainOptions& options) {
  if (options.solvers && *options.solvers < 1) {
    throw Error("--cpu=", *options.solvers, ": expected at least 1 solver");
  }
  if (!options.weights.empty() && !options.snapshot.empty()) {
    throw Error("--weights and --snapshot: a snapshot brings its own weights; give one of them");
  }
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("--shard=", options.shard_index, "/", options.shard_count,
                ": expected i/n with 0 <= i < n");
  }
}

// How long a node that stops waits for the others: for those that stop with it, and
// for those that have still to finish their last iteration.
constexpr int64_t kStopMs = 1300, kFinishMs = 30'000, kLeaveMs = 1500;
// And how long it answers those that have not heard yet that they may go.
constexpr int64_t kAnswerMs = 1000;

// This node's place in a cluster.
struct Place {
  Topology topology;
  NodePlan plan;
};

std::unique_ptr<Place> FindPlace(const TrainOptions& options) {
  if (options.topology.empty()) {
    if (!options.node.empty())
      throw Error("--node=", options.node, ": expected --topology with it");
    return nullptr;
  }
  auto place = std::make_unique<Place>();
  place->topology = LoadTopology(options.topology, TransportsForTopologies());
  place->plan = PlanFor(place->topology, ChooseNode(place->topology, options.node, getenv));
  return place;
}

// What was not asked for, as the place or else the habit has it.
TrainOptions Resolved(TrainOptions options, const Place* place) {
  if (!options.solvers) options.solvers = place ? place->plan.solvers : 1;
  if (options.shard_count == 0) {
    options.shard_index = place ? place->plan.shard : 0;
    options.shard_count = place ? place->plan.shards : 1;
  }
  return options;
}

double MiB(double bytes) { return bytes / (1 << 20); }

// Everything that one run consists of, in the order in which it is built; torn
// down in reverse.
class TrainRun {
 public:
  explicit TrainRun(const TrainOptions& options)
      : place_(FindPlace(options)),
        options_(Resolved(options, place_.get())),
        config_(LoadSolverConfig(options.solver_file)),
        policy_(config_.param),
        errors_([this] { stop_ = true; }),
        signals_(options.on_int, options.on_hup),
        snapshots_(*options_.solvers) {
    omp_set_num_threads(1);
    for (const std::string& notice : config_.notices) LOG(INFO) << notice;
    if (!options_.snapshot.empty()) Resume();
    data_ = std::make_unique<DataService>(
        DataOptions{config_.seed, options_.shard_index, options_.shard_count, nullptr});
    // Tests see all of their data, whatever this process's share of the training.
    test_data_ = std::make_unique<DataService>(DataOptions{config_.seed, 0, 1, nullptr});
    if (resume_) {
      data_->Restore("train", {resume_->state.stream().begin(), resume_->state.stream().end()});
    }
    LOG(INFO) << "Creating training net from " << config_.train.origin;
    net_ = std::make_unique<Net>(config_.train.param, config_.train.source,
                                 TrainNetOptions(config_, data_.get()));
    MakeWeights();
    if (!options.metrics.empty()) metrics_ = std::make_unique<MetricsWriter>(options.metrics);
    reporter_ = std::make_unique<Reporter>(config_, options_, clock_, metrics_.get());
    tester_ = std::make_unique<Tester>(config_, net_->layout(), weights_->data(), test_data_.get(),
                                       reporter_.get());
  }

  TrainResult Run() {
    if (place_ && !JoinCluster()) {
      TrainResult result;
      result.stopped_early = true;
      return result;
    }
    SharedRun shared{
        config_,    policy_, *weights_,           *data_,        *reporter_,    *tester_,
        snapshots_, stop_,   snapshot_requested_, resume_.get(), cluster_.get()};
    LOG(INFO) << "Solving " << net_->name();
    LOG(INFO) << "Learning Rate Policy: " << config_.param.lr_policy();
    LogWeights();
    const int64_t images = net_->batch_size() * config_.param.iter_size();
    reporter_->Start(net_->name(), weights_->clock().claimed(), images);
    board_ = std::make_unique<RunBoard>(Title(), &weights_->clock(), images, cluster_.get());

    std::vector<std::unique_ptr<SolverWorker>> workers;
    for (int i = 0; i < *options_.solvers; ++i) {
      workers.push_back(
          std::make_unique<SolverWorker>(i, shared, i == 0 ? std::move(net_) : nullptr));
    }
    RunThreads(workers);
    reporter_->Finish();
    errors_.RethrowIfFailed();
    TrainResult result = Finish(*workers[0]);
    if (cluster_) WaitFor(kAnswerMs, [this] { return cluster_->quiet(); });
    return result;
  }

 private:
  void Resume() {
    resume_ = std::make_unique<ResumePoint>(LoadResumePoint(options_.snapshot));
    if (resume_->state.has_seed()) config_.seed = resume_->state.seed();
    LOG(INFO) << "Resuming from " << options_.snapshot << " at iteration " << resume_->iteration();
    const std::string notice = ResumeNotice(*resume_, *options_.solvers);
    if (!notice.empty()) LOG(INFO) << notice;
  }

  // Fresh weights are filled, loaded or resumed; weights that others train
  // already are joined as they are.
  void MakeWeights() {
    weights_ = options_.shm.empty() ? WeightBuffer::CreatePrivate(net_->layout())
                                    : WeightBuffer::JoinTraining(options_.shm, net_->layout());
    net_->BindWeights(weights_->data());
    if (!weights_->created()) {
      if (place_) {
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
      net_->CopyWeightsFrom(LoadModel(resume_->model_path), resume_->model_path);
      weights_->clock().StartAt(resume_->iteration());
    } else {
      std::vector<std::string> files = options_.weights;
      if (files.empty())
        files.assign(config_.param.weights().begin(), config_.param.weights().end());
      for (const std::string& file : files) {
        LOG(INFO) << "Finetuning from " << file;
        LoadWeights(file, net_.get());
      }
    }
    if (!place_) weights_->Publish();
  }

  // Starts the segments and waits until the weights are those of the cluster. False
  // if the run was stopped meanwhile.
  bool JoinCluster() {
    const NodePlan& plan = place_->plan;
    for (const std::string& notice : plan.notices) LOG(INFO) << notice;
    IterationClock& iterations = weights_->clock();
    cluster_ = StartCluster(place_->topology, plan,
                            {.weights = weights_->data(),
                             .size = weights_->size(),
                             .layout_digest = net_->layout().Digest(),
                             .start = iterations.start(),
                             .iterations = &iterations,
                             .clock = &clock_,
                             .sink = &errors_});
    LOG(INFO) << "Node " << plan.name << " (" << plan.node << " of "
              << place_->topology.nodes.size() << ") of cluster " << place_->topology.name
              << ": waiting for the weights of the run";
    while (!cluster_->begun()) {
      errors_.RethrowIfFailed();
      cluster_->ThrowIfRefused();
      if (signals_.Next(20) == SignalEffect::kStop) {
        LOG(INFO) << "Stopped before the weights were there.";
        return false;
      }
    }
    if (cluster_->founded()) {
      LOG(INFO) << "The run begins with the weights of this node, at iteration "
                << iterations.claimed();
    } else {
      LOG(INFO) << "Joined the run at iteration " << iterations.claimed() << "; "
                << cluster_->members() << " nodes are in sync";
    }
    weights_->Publish();
    return true;
  }

  // Waits until `done` or `ms` have passed; errors end it too.
  template <typename Done>
  bool WaitFor(int64_t ms, Done done) {
    const double end = clock_.NowSeconds() + static_cast<double>(ms) * 1e-3;
    while (!done()) {
      if (errors_.failed() || clock_.NowSeconds() >= end) return false;
      signals_.Next(5);
    }
    return true;
  }

  // Ends this node's part in the cluster. True if it is the one that has the last
  // word: all others have gone, and everything that they did is here.
  bool LeaveCluster() {
    const bool last = SettleCluster();
    for (const ClusterSegment& segment : cluster_->segments()) {
      LOG(INFO) << "Segment " << segment.net->name() << ": "
                << SummaryOf(segment.net->meters(), segment.net->transport().counters());
    }
    return last;
  }

  bool SettleCluster() {
    const int64_t patience = stopped_ ? kStopMs : kFinishMs;
    const bool nobody_depends = WaitFor(patience, [this] { return !cluster_->others_depend(); });
    if (cluster_->alone()) return true;
    if (!stopped_ && !nobody_depends && cluster_->leads()) {
      LOG(WARNING) << cluster_->members() - 1 << " other nodes have not finished after "
                   << patience / 1000 << " s; going on without what they still have";
      return true;
    }
    cluster_->Leave();
    // Those that leave at the same time may leave this one alone.
    if (WaitFor(kLeaveMs, [this] { return cluster_->left() || cluster_->alone(); }) &&
        cluster_->alone()) {
      return true;
    }
    if (cluster_->delivered()) {
      LOG(INFO) << "Left the cluster; the other nodes have all that this one did";
    } else {
      LOG(WARNING) << "Left the cluster in a hurry: what was not sent yet is lost";
    }
    return false;
  }

  // What runs, for those who watch.
  std::string Title() const {
    return place_ ? Cat(net_->name(), " on ", place_->topology.name, "/", place_->plan.name)
                  : net_->name();
  }

  void LogWeights() const {
    const double weight_bytes = static_cast<double>(weights_->size()) * sizeof(float);
    LOG(INFO) << *options_.solvers << (*options_.solvers > 1 ? " solvers" : " solver") << " on "
              << (options_.shm.empty() ? "private" : "shared") << " weights of "
              << MiB(weight_bytes) << " MiB; each adds gradients and history of "
              << MiB(2 * weight_bytes) << " MiB, and its activations";
  }

  static void LogMemory(const SolverWorker& worker) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    LOG(INFO) << "Peak resident memory " << static_cast<double>(usage.ru_maxrss) / 1024
              << " MiB; activations " << MiB(static_cast<double>(worker.activation_bytes()))
              << " MiB per solver";
  }

  void RunThreads(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
    std::atomic<int> running{static_cast<int>(workers.size())};
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < workers.size(); ++i) {
      threads.push_back(std::make_unique<Thread>(
          Cat("solver-", i),
          [&, worker = workers[i].get()] {
            struct Ended {
              std::atomic<int>& running;
              ~Ended() { --running; }
            } ended{running};
            worker->Run();
          },
          &errors_));
    }
    while (running > 0) {
      board_->Update(reporter_->loss());
      switch (signals_.Next(50)) {
        case SignalEffect::kStop:
          LOG(INFO) << "Stopping: each solver finishes its iteration";
          stop_ = true;
          stopped_ = true;
          break;
        case SignalEffect::kSnapshot:
          snapshot_requested_ = true;
          break;
        case SignalEffect::kNone:
          break;
      }
      // A solver that waits for data sees no flag.
      if (stop_) data_->Stop();
    }
    for (auto& thread : threads) thread->Join();
  }

  TrainResult Finish(const SolverWorker& worker) {
    LogMemory(worker);
    TrainResult result;
    result.stopped_early = stopped_;
    const IterationClock& clock = weights_->clock();
    const bool complete = clock.claimed() >= config_.param.max_iter() && !stopped_;
    result.iteration = complete ? config_.param.max_iter() : clock.global();
    result.loss = reporter_->loss();
    // Of several machines and processes the last one has the last word.
    const bool last_node = !cluster_ || LeaveCluster();
    const bool last_process = weights_->StopTraining();
    const bool last = last_node && last_process;
    if (!last_process)
      LOG(INFO) << "Other processes train on these weights: the last one saves them";
    if (last && config_.param.snapshot_after_train()) {
      const SnapshotPaths paths =
          SnapshotPathsOf(config_.param.snapshot_prefix(), result.iteration);
      worker.SaveFinal(result.iteration);
      result.model = paths.model;
      result.state = paths.state;
    }
    if (stopped_) {
      LOG(INFO) << "Optimization stopped early.";
      return result;
    }
    if (last_node && tester_->Due(result.iteration)) {
      result.tests = tester_->Run(result.iteration, [] { return false; });
    }
    LOG(INFO) << "Optimization Done.";
    return result;
  }

  const std::unique_ptr<Place> place_;  // null for a machine alone
  const TrainOptions options_;
  SteadyClock clock_;
  SolverConfig config_;
  const LrPolicy policy_;
  std::atomic<bool> stop_{false}, snapshot_requested_{false};
  bool stopped_ = false;  // by a signal
  ErrorSink errors_;
  SignalWatch signals_;
  SnapshotCollector snapshots_;
  std::unique_ptr<ResumePoint> resume_;
  std::unique_ptr<DataService> data_, test_data_;
  std::unique_ptr<WeightBuffer> weights_;
  std::unique_ptr<Net> net_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Tester> tester_;
  std::unique_ptr<RunBoard> board_;
  std::unique_ptr<Cluster> cluster_;  // after the weights, on which its threads work
};

}  // namespace

TrainResult Train(const TrainOptions& options) {
  CheckOptions(options);
  return TrainRun(options).Run();
}

}  // namespace millrace
