#include "simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <string>
#include <utility>

#include <boost/thread/thread.hpp>

#include "base/queue.h"
#include "base/thread.h"
#include "data/data_service.h"
#include "exchange/protocol/ownership.h"
#include "segment/net_segment.h"
#include "simulate/simulated_worker.h"
#include "solver/moving_average.h"
#include "solver/snapshot.h"
#include "train/one_omp_thread.h"
#include "train/train_nets.h"

namespace millrace::inline simulate {
namespace {

constexpr uint64_t kDurationStream = 1001;
constexpr int64_t kLongestRestNs = 300'000'000'000;  // for forming and for coming to rest
constexpr size_t kFramesAtOnce = 4;
constexpr int kIpUdpBytes = 28;

[[noreturn]] void Refuse(const std::string& field, double value, const std::string& expected) {
  throw Error(field, ": ", value, " given, expected ", expected);
}

void Check(const SimulationOptions& options) {
  const auto expect = [](const char* field, double value, bool holds, const char* expected) {
    if (!holds) Refuse(field, value, expected);
  };
  expect("workers", options.workers, options.workers >= 1 && options.workers <= 64, "1 to 64");
  expect("step_ms", options.step_ms, options.step_ms >= 1e-3 && options.step_ms <= 1e6,
         "0.001 to 1000000");
  expect("jitter", options.jitter, options.jitter >= 0 && options.jitter < 1, "0 to less than 1");
  expect("max_mbps", options.network.max_mbps,
         options.network.max_mbps >= 0.01 && options.network.max_mbps <= 1e6, "0.01 to 1000000");
  expect("delay_ms", options.network.delay_ms,
         options.network.delay_ms >= 0 && options.network.delay_ms <= 10000, "0 to 10000");
  expect("loss", options.network.loss, options.network.loss >= 0 && options.network.loss <= 0.9,
         "0 to 0.9");
  expect("mtu", options.mtu, options.mtu >= 576 && options.mtu <= 65535, "576 to 65535");
  expect("threads", options.threads, options.threads >= 0, "0 or more");
  for (const auto& [worker, factor] : options.slow) {
    expect("slow: worker", worker, worker >= 0 && worker < options.workers,
           "a number below that of workers");
    expect("slow: factor", factor, factor > 0 && factor <= 1e6, "above 0, at most 1000000");
  }
}

// A thread in which some of the workers are made and compute.
class ComputeThread {
 public:
  explicit ComputeThread(int index, ErrorSink* sink)
      : work_(64),
        thread_(
            StrCat("compute ", index), [this] { Body(); }, sink) {}
  ~ComputeThread() {
    work_.Close();
    thread_.Join();
  }

  std::future<void> Post(std::function<void()> work) {
    auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
    std::future<void> done = task->get_future();
    work_.Push(std::move(task));
    return done;
  }

 private:
  void Body() {
    const OneOmpThread one;
    while (const auto task = work_.Pop()) (**task)();
  }

  BoundedQueue<std::shared_ptr<std::packaged_task<void()>>> work_;
  Thread thread_;
};

// The workers exchange weights by the rule of the options, and the schedule ends the simulation.
void RefuseParts(const SolverConfig& config) {
  const caffe::SolverParameter& param = config.param;
  if (const std::string& type = param.strategy().type(); type != "hogwild") {
    throw Located(config.source, FieldError("strategy.type", "is ", type,
                                            ", a simulation has the strategy hogwild only"));
  }
  RefuseSynchronizedLayers(config);
  if (param.stop_condition_size() > 0) {
    throw Located(config.source,
                  FieldError("stop_condition", "a simulation ends with max_iter only"));
  }
}

}  // namespace

class Simulation::Impl {
 public:
  Impl(const SolverConfig& config, const SimulationOptions& options)
      : config_(config),
        options_(options),
        policy_(config_.param),
        durations_(options.seed, {kDurationStream}),
        network_(options.network, options.workers, options.seed),
        losses_(std::max<int>(config.param.average_loss(), options.workers)),
        workers_(options.workers) {
    const MergeRuleDescriptor& rule = MergeRuleRegistry::Get().Check(options.rule);
    MergeRuleRegistry::Get().CheckCodec(options.rule.name, options.codec);
    const int cores = std::max<int>(1, static_cast<int>(boost::thread::hardware_concurrency()));
    const int threads = std::min(options.threads > 0 ? options.threads : cores, options.workers);
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(std::make_unique<ComputeThread>(i, &errors_));
    }
    for (int w = 0; w < options.workers; ++w) {
      WorkerConfig worker;
      worker.index = static_cast<uint16_t>(w);
      worker.workers = options.workers;
      worker.rule = options.rule;
      worker.exchange = ExchangeOf(worker.index, rule);
      worker.chunk_floats = chunk_floats_ =
          ChunkFloatsFor(static_cast<size_t>(options.mtu - kIpUdpBytes), worker.exchange);
      if (chunk_floats_ < 1) Refuse("mtu", options.mtu, "more: a chunk does not fit");
      InThread(w, [&, w] {
        workers_[w].worker =
            std::make_unique<SimulatedWorker>(config_, policy_, worker, &schedule_);
      });
    }
    InThread(0, [&] { workers_[0].worker->FillWeights(); });
    const std::vector<float>& first = workers_[0].worker->weights();
    for (Slot& slot : workers_) slot.worker->weights() = first;
    MakeTestNets();
  }

  ~Impl() {
    // Where they were made.
    for (int w = 0; w < options_.workers; ++w) {
      if (workers_[w].computing.valid()) workers_[w].computing.wait();
      InThread(w, [&] { workers_[w].worker.reset(); });
    }
  }

  SimulationStatus Run(const SimulationObserver& observer) {
    observer_ = &observer;
    if (several()) Form();
    begin_ns_ = now_ns_;
    bytes_before_ = network_.bytes_sent();
    for (Slot& slot : workers_) slot.taken_before = PositionsOf(slot);
    if (config_.param.test_interval() > 0 && config_.param.test_initialization()) Test();
    for (int w = 0; w < options_.workers; ++w) StartIteration(w);
    while (finished_ < options_.workers) Step();
    trained_ns_ = now_ns_;
    if (several()) ComeToRest();
    SimulationStatus status = StatusNow();
    if (tested_at_ != completed_) Test();
    return status;
  }

  const std::vector<float>& weights() const { return workers_[0].worker->weights(); }

  double LargestDistance() const {
    double largest = 0;
    for (const Slot& slot : workers_) {
      for (size_t i = 0; i < weights().size(); ++i) {
        largest = std::max(largest, std::abs(double{slot.worker->weights()[i]} - weights()[i]));
      }
    }
    return largest;
  }

  void Save(const std::string& path) {
    InThread(0, [&] {
      caffe::NetParameter model;
      workers_[0].worker->net().ToProto(&model, false, weights().data());
      SaveBinary(path, model);
    });
  }

 private:
  enum class EventKind { kPoll, kArrival, kEnd };

  struct Event {
    EventKind kind = EventKind::kPoll;
    int worker = 0;
    std::vector<std::byte> frame;
  };

  struct Slot {
    std::unique_ptr<SimulatedWorker> worker;
    std::future<void> computing;
    StepResult result;
    int64_t poll_at_ns = INT64_MAX;
    uint64_t taken_before = 0;
  };

  bool several() const { return options_.workers > 1; }
  Exchange& exchange(int w) { return workers_[w].worker->exchange(); }

  ExchangeConfig ExchangeOf(uint16_t index, const MergeRuleDescriptor& rule) const {
    const auto delay_ns = static_cast<int64_t>(options_.network.delay_ms * 1e6);
    ExchangeConfig exchange;
    exchange.run = 1;
    exchange.node = index;
    exchange.max_nodes = static_cast<uint16_t>(std::max(options_.workers, 2));
    exchange.codec = options_.codec;
    exchange.damping = options_.damping;
    exchange.rest_distance = rule.RestDistance(options_.rule.parameters);
    exchange.sole_bootstrapper = index == 0;
    if (index != 0) exchange.bootstrap_after_ns = -1;
    // As on a machine, but with room for delays that no local network has.
    exchange.peer_timeout_ns = std::max(exchange.peer_timeout_ns, 20 * delay_ns);
    exchange.resend_ns = std::max(exchange.resend_ns, 4 * delay_ns);
    return exchange;
  }

  // Runs `work` in the thread of worker `w` and waits for it.
  void InThread(int w, std::function<void()> work) {
    threads_[w % threads_.size()]->Post(std::move(work)).get();
  }

  void MakeTestNets() {
    merged_.resize(weights().size());
    owners_.resize(several() ? exchange(0).table().size() : 0);
    test_data_ = std::make_unique<DataService>(DataOptions{.seed = config_.seed});
    for (size_t i = 0; i < config_.tests.size(); ++i) {
      BuiltNetOptions options;
      options.state = config_.tests[i].state;
      options.seed = config_.seed;
      options.data = test_data_.get();
      options.data_scope = StrCat("test", i);
      tests_.push_back(
          std::make_unique<BuiltNet>(config_.tests[i].param, config_.tests[i].source, options));
      tests_.back()->BindWeights(workers_[0].worker->net().layout(), merged_.data());
    }
  }

  // ---- Events ----

  void At(int64_t at_ns, Event event) {
    in_flight_ += event.kind == EventKind::kArrival;
    events_.emplace(std::pair(at_ns, next_event_++), std::move(event));
  }

  void PollAt(int w, int64_t at_ns) {
    if (workers_[w].poll_at_ns <= at_ns) return;
    workers_[w].poll_at_ns = at_ns;
    At(at_ns, {EventKind::kPoll, w, {}});
  }

  // Handles the next event.
  void Step() {
    auto node = events_.extract(events_.begin());
    now_ns_ = node.key().first;
    Event& event = node.mapped();
    switch (event.kind) {
      case EventKind::kPoll:
        // An earlier poll may have taken its place.
        if (workers_[event.worker].poll_at_ns != now_ns_) return;
        workers_[event.worker].poll_at_ns = INT64_MAX;
        break;
      case EventKind::kArrival: {
        --in_flight_;
        const std::span<const std::byte> frame(event.frame);
        exchange(event.worker).Receive({&frame, 1}, now_ns_);
        break;
      }
      case EventKind::kEnd:
        EndIteration(event.worker);
        break;
    }
    if (several()) Poll(event.worker);
  }

  // Sends what the worker's link has room for.
  void Poll(int w) {
    PostedFrame room[kFramesAtOnce];
    while (network_.FreeAt(w) <= now_ns_) {
      const size_t count = exchange(w).Send(room, now_ns_);
      exchange(w).SetThrottled(count == kFramesAtOnce);
      if (count == 0) break;
      arrivals_.clear();
      for (const PostedFrame& frame : std::span(room).first(count)) {
        network_.Send(static_cast<uint16_t>(w), frame.destination, frame.head, frame.payload,
                      now_ns_, &arrivals_);
        exchange(w).Release(frame.slot);
      }
      for (SimulatedNetwork::Arrival& arrival : arrivals_) {
        At(arrival.at_ns, {EventKind::kArrival, arrival.to, std::move(arrival.frame)});
      }
    }
    constexpr int64_t kShortestNs = 1000;
    PollAt(w,
           std::max({network_.FreeAt(w), exchange(w).NextEvent(now_ns_), now_ns_ + kShortestNs}));
  }

  // ---- Phases ----

  void Form() {
    for (int w = 0; w < options_.workers; ++w) PollAt(w, 0);
    const auto formed = [&] {
      for (int w = 0; w < options_.workers; ++w) {
        if (!exchange(w).in_sync() ||
            exchange(w).view().members.size() != static_cast<size_t>(options_.workers)) {
          return false;
        }
      }
      return true;
    };
    while (!formed()) {
      if (now_ns_ > kLongestRestNs) throw Error("the workers did not find each other");
      Step();
    }
    // No node leaves or joins from here on.
    AssignOwners(exchange(0).view(), owners_);
  }

  void ComeToRest() {
    const int64_t begin_ns = now_ns_;
    for (int w = 0; w < options_.workers; ++w) {
      exchange(w).Flush();
      PollAt(w, now_ns_);
    }
    const auto at_rest = [&] {
      if (in_flight_ > 0) return false;
      for (int w = 0; w < options_.workers; ++w) {
        if (!exchange(w).quiescent()) return false;
      }
      return true;
    };
    while (!at_rest()) {
      if (now_ns_ - begin_ns > kLongestRestNs) {
        throw Error("after the last iteration, the exchange did not come to rest in ",
                    kLongestRestNs / 1'000'000'000, " s of virtual time");
      }
      Step();
    }
  }

  // ---- Iterations ----

  void StartIteration(int w) {
    Slot& slot = workers_[w];
    const bool stopped = observer_->stop && observer_->stop();
    const std::optional<int64_t> iteration = stopped ? std::nullopt : slot.worker->Begin();
    if (!iteration) {
      ++finished_;
      return;
    }
    slot.computing = threads_[w % threads_.size()]->Post(
        [&slot, number = *iteration] { slot.result = slot.worker->Compute(number); });
    const auto slow = options_.slow.find(w);
    const double factor = (slow == options_.slow.end() ? 1 : slow->second) *
                          (1 - options_.jitter + 2 * options_.jitter * durations_.Uniform());
    At(now_ns_ + std::max<int64_t>(1, static_cast<int64_t>(options_.step_ms * 1e6 * factor)),
       {EventKind::kEnd, w, {}});
  }

  void EndIteration(int w) {
    Slot& slot = workers_[w];
    try {
      slot.computing.get();
    } catch (const Error& error) {
      throw Error("worker ", w, ": ", error.what());
    }
    slot.worker->End();
    losses_.Add(slot.result.loss);
    ++completed_;
    const int64_t display = config_.param.display(), interval = config_.param.test_interval();
    if (display > 0 && completed_ % display == 0 && observer_->iteration) {
      observer_->iteration(StatusNow());
    }
    if (interval > 0 && completed_ % interval == 0) Test();
    StartIteration(w);
  }

  uint64_t PositionsOf(const Slot& slot) const {
    return several() ? slot.worker->exchange().stats().positions_taken : 0;
  }

  SimulationStatus StatusNow() const {
    SimulationStatus status;
    status.iterations = completed_;
    status.seconds = static_cast<double>(std::min(now_ns_, trained_ns_) - begin_ns_) / 1e9;
    status.loss = losses_.Mean();
    status.bytes_sent = network_.bytes_sent() - bytes_before_;
    // A worker gets positions of the chunks that others master.
    double sweeps = 0;
    for (const Slot& slot : workers_) {
      sweeps += static_cast<double>(PositionsOf(slot) - slot.taken_before);
    }
    const double foreign = static_cast<double>(owners_.size()) * (options_.workers - 1);
    if (sweeps > 0) status.staleness = static_cast<double>(completed_) * foreign / sweeps;
    return status;
  }

  // Of the weights of each chunk's master.
  void Test() {
    tested_at_ = completed_;
    if (tests_.empty()) return;
    if (!several()) {
      merged_ = weights();
    } else {
      const auto chunk = static_cast<size_t>(chunk_floats_);
      for (size_t c = 0; c < owners_.size(); ++c) {
        const size_t begin = c * chunk, end = std::min(begin + chunk, merged_.size());
        const std::vector<float>& of = workers_[owners_[c]].worker->weights();
        std::copy(of.begin() + begin, of.begin() + end, merged_.begin() + begin);
      }
    }
    const OneOmpThread one;
    for (size_t i = 0; i < tests_.size(); ++i) {
      const Evaluation found = Evaluate(tests_[i].get(), config_.tests[i].test_iter,
                                        [&] { return observer_->stop && observer_->stop(); });
      if (observer_->test) observer_->test(StatusNow(), static_cast<int>(i), found);
    }
  }

  const SolverConfig config_;
  const SimulationOptions options_;
  const LrPolicy policy_;
  ErrorSink errors_;
  SharedSchedule schedule_;
  Rng durations_;
  SimulatedNetwork network_;
  MovingAverage losses_;
  std::vector<Slot> workers_;
  std::unique_ptr<DataService> test_data_;
  std::vector<std::unique_ptr<BuiltNet>> tests_;
  std::vector<float> merged_;
  int64_t chunk_floats_ = 0;
  std::vector<uint16_t> owners_;  // masters of the chunks

  std::map<std::pair<int64_t, uint64_t>, Event> events_;  // by time, then in order of creation
  uint64_t next_event_ = 0;
  int64_t in_flight_ = 0;  // frames
  std::vector<SimulatedNetwork::Arrival> arrivals_;
  int64_t now_ns_ = 0, begin_ns_ = 0, trained_ns_ = INT64_MAX;
  uint64_t bytes_before_ = 0;
  int64_t completed_ = 0, tested_at_ = -1;
  int finished_ = 0;
  const SimulationObserver* observer_ = nullptr;
  std::vector<std::unique_ptr<ComputeThread>> threads_;  // last: they use all of the above
};

Simulation::Simulation(const SolverConfig& config, const SimulationOptions& options) {
  Check(options);
  RefuseParts(config);
  impl_ = std::make_unique<Impl>(config, options);
}

Simulation::~Simulation() = default;

SimulationStatus Simulation::Run(const SimulationObserver& observer) {
  return impl_->Run(observer);
}

const std::vector<float>& Simulation::weights() const { return impl_->weights(); }

double Simulation::LargestDistance() const { return impl_->LargestDistance(); }

void Simulation::Save(const std::string& path) { impl_->Save(path); }

}  // namespace millrace::inline simulate
