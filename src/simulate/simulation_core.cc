#include "simulate/simulation_core.h"

#include <glog/logging.h>

#include <algorithm>
#include <boost/thread/thread.hpp>
#include <cmath>

#include "train/evaluation/evaluator.h"
#include "train/one_omp_thread.h"
#include "train/resume.h"
#include "train/train_nets.h"

namespace millrace::inline simulate {
namespace {

constexpr uint64_t kDurationStream = 1001;

SolverConfig Continued(SolverConfig config, const ResumePoint* resume) {
  if (resume != nullptr && resume->state.has_seed()) config.seed = resume->state.seed();
  return config;
}

}  // namespace

SimulationCore::SimulationCore(const SolverConfig& config, const SimulationOptions& options)
    : resume_(options.snapshot.empty()
                  ? nullptr
                  : std::make_unique<ResumePoint>(LoadResumePoint(options.snapshot))),
      config_(Continued(config, resume_.get())),
      options_(options),
      policy_(config_.param),
      stop_conditions_(config_.param, &trained_clock_),
      durations_(options.seed, {kDurationStream}),
      network_(options.network, options.workers, options.seed),
      losses_(std::max<int>(config.param.average_loss(), options.workers)),
      workers_(options.workers) {
  const int cores = std::max<int>(1, static_cast<int>(boost::thread::hardware_concurrency()));
  const int threads = std::min(options.threads > 0 ? options.threads : cores, options.workers);
  for (int i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<ComputeThread>(i, &errors_));
  }
}

SimulationCore::~SimulationCore() {
  // Where they were made.
  for (int w = 0; w < options_.workers; ++w) {
    if (workers_[w].computing.valid()) workers_[w].computing.wait();
    RunInThread(w, [&] { workers_[w].worker.reset(); });
  }
}

void SimulationCore::MakeWorkers(const std::function<void(WorkerConfig* worker)>& configure) {
  if (resume_) {
    CheckResumed();
    ResumePolicy(*resume_, &policy_);
  }
  for (int w = 0; w < options_.workers; ++w) {
    WorkerConfig worker;
    worker.index = static_cast<uint16_t>(w);
    worker.workers = options_.workers;
    configure(&worker);
    if (resume_) {
      const auto& streams = resume_->run->solver(w).stream();
      worker.streams.assign(streams.begin(), streams.end());
    }
    RunInThread(w, [&] {
      workers_[w].worker = std::make_unique<SimulatedWorker>(config_, policy_, worker);
    });
  }
  RunInThread(0, [&] { workers_[0].worker->FillWeights(); });
  for (Slot& slot : workers_) {
    std::copy(weights().begin(), weights().end(), slot.worker->weights().begin());
  }
  MakeTestNets();
  if (resume_) Resume();
}

void SimulationCore::MakeTestNets() {
  merged_.resize(weights().size());
  test_data_ = std::make_unique<DataService>(DataOptions{.seed = config_.seed});
  for (size_t i = 0; i < config_.tests.size(); ++i) {
    const BuiltNetOptions options = TestNetOptions(config_, i, test_data_.get());
    tests_.push_back(
        std::make_unique<BuiltNet>(config_.tests[i].param, config_.tests[i].source, options));
    tests_.back()->BindWeights(workers_[0].worker->net().layout(), merged_.data());
  }
}

SimulationStatus SimulationCore::Run(const SimulationObserver& observer) {
  observer_ = &observer;
  for (bool first = true;; first = false) {
    BeginPart();
    if (first) {
      stop_conditions_.Start();
      if (config_.param.test_interval() > 0 && config_.param.test_initialization()) Test();
    }
    Train();
    trained_ns_ = now_ns();
    for (Slot& slot : workers_) slot.worker->strategy().Flush(Now());
    ComeToRest();
    if (options_.snapshot_every > 0 && saved_at_ != completed_) TakeSnapshot();
    if (completed_ >= config_.param.max_iter() || Stopped()) break;
    Rewind();
  }
  MergeAll();
  SimulationStatus status = StatusNow();
  if (tested_at_ != completed_) Test();
  return status;
}

void SimulationCore::Rewind() {
  const auto part = static_cast<uint64_t>(completed_);
  clock_.now_ns = begin_ns_ = 0;
  trained_ns_ = INT64_MAX;
  events_.clear();
  network_.Restart(part);
  durations_ = Rng(options_.seed, {kDurationStream, part});
  finished_ = 0;
}

double SimulationCore::LargestDistance() {
  double largest = 0;
  for (const Slot& slot : workers_) {
    for (size_t i = 0; i < weights().size(); ++i) {
      largest = std::max(largest, std::abs(double{slot.worker->weights()[i]} - weights()[i]));
    }
  }
  return largest;
}

void SimulationCore::Save(const std::string& path) {
  RunInThread(0, [&] {
    caffe::NetParameter model;
    workers_[0].worker->net().ToProto(&model, false, weights().data());
    SaveBinary(path, model);
  });
}

MergeTime SimulationCore::Now() const {
  return {.iterations = completed_, .seconds = clock_.NowSeconds(), .solvers = 1};
}

bool SimulationCore::Stopped() {
  stopped_ = stopped_ || (observer_->stop && observer_->stop());
  return stopped_;
}

std::optional<int64_t> SimulationCore::Begin(int w) {
  Slot& slot = workers_[w];
  slot.worker->SetRateFactor(RateFactor(w));
  const std::optional<int64_t> iteration = slot.worker->Begin();
  if (!iteration) return std::nullopt;
  slot.computing =
      Post(w, [&slot, number = *iteration] { slot.result = slot.worker->Compute(number); });
  return iteration;
}

float SimulationCore::FinishCompute(int w) {
  try {
    workers_[w].computing.get();
  } catch (const Error& error) {
    throw Error("worker ", w, ": ", error.what());
  }
  rate_ = workers_[w].result.rate;
  return workers_[w].result.loss;
}

int64_t SimulationCore::DurationNs(int w) {
  const auto slow = options_.slow.find(w);
  const double factor = (slow == options_.slow.end() ? 1 : slow->second) *
                        (1 - options_.jitter + 2 * options_.jitter * durations_.Uniform());
  return std::max<int64_t>(1, static_cast<int64_t>(options_.step_ms * 1e6 * factor));
}

void SimulationCore::CountIteration(float loss) {
  losses_.Add(loss);
  ++completed_;
  if (stop_conditions_.AfterIteration(completed_)) stopped_ = true;
  const int64_t display = config_.param.display(), interval = config_.param.test_interval();
  if (display > 0 && completed_ % display == 0 && observer_->iteration) {
    observer_->iteration(StatusNow());
  }
  if (interval > 0 && completed_ % interval == 0) Test();
}

void SimulationCore::StartAll() {
  for (int w = 0; w < options_.workers; ++w) StartIteration(w);
}

void SimulationCore::StartIteration(int w) {
  if (Stopped() || !Begin(w)) {
    ++finished_;
    return;
  }
  At(now_ns() + DurationNs(w), [this, w] { EndIteration(w); });
}

void SimulationCore::EndIteration(int w) {
  const float loss = FinishCompute(w);
  MergeTime now = Now();
  ++now.iterations;
  workers_[w].worker->End(now);
  CountIteration(loss);
  StartIteration(w);
  AfterIteration(w);
}

void SimulationCore::Step() {
  const auto node = events_.extract(events_.begin());
  clock_.now_ns = node.key().first;
  node.mapped()();
}

SimulationStatus SimulationCore::StatusNow() const {
  SimulationStatus status;
  status.iterations = completed_;
  status.seconds = static_cast<double>(TrainedNs()) / 1e9;
  status.loss = losses_.Mean();
  status.rate = rate_;
  status.bytes_sent = network_.bytes_sent() - bytes_before_;
  status.stop_reason = stop_conditions_.reason();
  AddTo(&status);
  return status;
}

void SimulationCore::Test() {
  tested_at_ = completed_;
  if (tests_.empty()) return;
  ReadMerged(&merged_);
  const OneOmpThread one;
  std::vector<std::vector<double>> outputs;
  for (size_t i = 0; i < tests_.size(); ++i) {
    const Evaluation found = Evaluate(tests_[i].get(), config_.tests[i].test_iter,
                                      [&] { return observer_->stop && observer_->stop(); });
    if (observer_->test) observer_->test(StatusNow(), static_cast<int>(i), found);
    outputs.push_back(MeanOutputs(found));
  }
  if (stop_conditions_.AfterTest(completed_, outputs)) stopped_ = true;
}

}  // namespace millrace::inline simulate
