#include "train/train_run.h"

#include <glog/logging.h>
#include <omp.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>

#include "base/thread.h"
#include "train/solver_worker.h"

namespace millrace {
namespace {

void CheckOptions(const TrainOptions& options) {
  if (options.solvers < 1) throw Error("--cpu=", options.solvers, ": expected at least 1 solver");
  if (!options.weights.empty() && !options.snapshot.empty()) {
    throw Error("--weights and --snapshot: a snapshot brings its own weights; give one of them");
  }
  if (options.shard_count < 1 || options.shard_index >= options.shard_count) {
    throw Error("--shard=", options.shard_index, "/", options.shard_count,
                ": expected i/n with 0 <= i < n");
  }
}

double MiB(double bytes) { return bytes / (1 << 20); }

// Everything that one run consists of, in the order in which it is built; torn
// down in reverse.
class TrainRun {
 public:
  explicit TrainRun(const TrainOptions& options)
      : options_(options),
        config_(LoadSolverConfig(options.solver_file)),
        policy_(config_.param),
        errors_([this] { stop_ = true; }),
        signals_(options.on_int, options.on_hup),
        snapshots_(options.solvers) {
    omp_set_num_threads(1);
    for (const std::string& notice : config_.notices) LOG(INFO) << notice;
    if (!options_.snapshot.empty()) Resume();
    data_ = std::make_unique<DataService>(
        DataOptions{config_.seed, options.shard_index, options.shard_count, nullptr});
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
    SharedRun shared{config_,    policy_, *weights_,           *data_,       *reporter_, *tester_,
                     snapshots_, stop_,   snapshot_requested_, resume_.get()};
    LOG(INFO) << "Solving " << net_->name();
    LOG(INFO) << "Learning Rate Policy: " << config_.param.lr_policy();
    LogWeights();
    const int64_t images = net_->batch_size() * config_.param.iter_size();
    reporter_->Start(net_->name(), weights_->clock().claimed(), images);

    std::vector<std::unique_ptr<SolverWorker>> workers;
    for (int i = 0; i < options_.solvers; ++i) {
      workers.push_back(
          std::make_unique<SolverWorker>(i, shared, i == 0 ? std::move(net_) : nullptr));
    }
    RunThreads(workers);
    reporter_->Finish();
    errors_.RethrowIfFailed();
    return Finish(*workers[0]);
  }

 private:
  void Resume() {
    resume_ = std::make_unique<ResumePoint>(LoadResumePoint(options_.snapshot));
    if (resume_->state.has_seed()) config_.seed = resume_->state.seed();
    LOG(INFO) << "Resuming from " << options_.snapshot << " at iteration " << resume_->iteration();
    const std::string notice = ResumeNotice(*resume_, options_.solvers);
    if (!notice.empty()) LOG(INFO) << notice;
  }

  // Fresh weights are filled, loaded or resumed; weights that others train
  // already are joined as they are.
  void MakeWeights() {
    weights_ = options_.shm.empty() ? WeightBuffer::CreatePrivate(net_->layout())
                                    : WeightBuffer::JoinTraining(options_.shm, net_->layout());
    net_->BindWeights(weights_->data());
    if (!weights_->created()) {
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
    weights_->Publish();
  }

  void LogWeights() const {
    const double weight_bytes = static_cast<double>(weights_->size()) * sizeof(float);
    LOG(INFO) << options_.solvers << (options_.solvers > 1 ? " solvers" : " solver") << " on "
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
    // Of several processes the last one has the last word.
    const bool last = weights_->StopTraining();
    if (!last) LOG(INFO) << "Other processes train on these weights: the last one saves them";
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
    if (tester_->Due(result.iteration)) {
      result.tests = tester_->Run(result.iteration, [] { return false; });
    }
    LOG(INFO) << "Optimization Done.";
    return result;
  }

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
};

}  // namespace

TrainResult Train(const TrainOptions& options) {
  CheckOptions(options);
  return TrainRun(options).Run();
}

}  // namespace millrace
