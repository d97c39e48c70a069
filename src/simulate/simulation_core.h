// What all simulations have in common: workers and the threads in which they compute, virtual time
// and its events, tests, reports and the end. How workers exchange weights is up to the subclass:
// by segments (exchange_simulation.cc), all at once (synchronous_simulation.cc) or in pairs
// (gossip_simulation.cc).
//
// A run with snapshots has parts. At the end of each, all workers come to rest and a snapshot is
// written. The next part begins with what the snapshot holds: virtual time with 0, random numbers
// with those of the part's first iteration, and a new exchange. So a run that is continued from the
// snapshot goes on as the one that has written it, bit for bit.
#ifndef MILLRACE_SIMULATE_SIMULATION_CORE_H_
#define MILLRACE_SIMULATE_SIMULATION_CORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "data/data_service.h"
#include "millrace/clock.h"
#include "simulate/compute_thread.h"
#include "simulate/simulated_network.h"
#include "simulate/simulated_worker.h"
#include "simulate/simulation.h"
#include "solver/lr_policy.h"
#include "solver/moving_average.h"
#include "solver/snapshot.h"
#include "solver/stop_conditions.h"
#include "strategy/strategy_plans.h"

namespace millrace::inline simulate {

class SimulationCore {
 public:
  virtual ~SimulationCore();

  SimulationStatus Run(const SimulationObserver& observer);
  const std::vector<float>& weights() { return workers_[0].worker->weights(); }
  double LargestDistance();
  void Save(const std::string& path);

 protected:
  struct Slot {
    std::unique_ptr<SimulatedWorker> worker;
    std::future<void> computing;
    StepResult result;
  };

  SimulationCore(const SolverConfig& config, const SimulationOptions& options);

  // Makes the workers and the test nets. `configure` fills the configuration of a worker, which has
  // its index.
  void MakeWorkers(const std::function<void(WorkerConfig* worker)>& configure);

  // Before a part begins, in virtual time that begins with 0.
  virtual void FormCluster() {}
  // Trains until no worker has an iteration left, in this part.
  virtual void Train() = 0;
  // Then waits until nothing is under way between workers.
  virtual void ComeToRest() {}
  // After the last part: brings the weights of all workers together.
  virtual void MergeAll() {}
  // The weights that tests score.
  virtual void ReadMerged(std::vector<float>* merged) = 0;
  // Adds what the subclass knows.
  virtual void AddTo(SimulationStatus* status) const { (void)status; }

  // What snapshots hold of the subclass, at rest: the name of its rule, what workers share, and
  // what worker `w` has besides its history and its strategy's state.
  virtual std::string rule() const;
  virtual void ExportShared(RunState* run) const { (void)run; }
  virtual void ExportPart(int w, SolverPart* part) const { (void)w, (void)part; }
  // A part of the run goes on with these, after Form; all workers have the weights that ReadMerged
  // has given. Throw Error if they do not fit.
  virtual void RestoreShared(const StateReader& run) { (void)run; }
  virtual void RestorePart(int w, const StateReader& part) { (void)w, (void)part; }

  const SolverConfig& config() const { return config_; }
  const SimulationOptions& options() const { return options_; }
  int workers() const { return options_.workers; }
  bool several() const { return options_.workers > 1; }
  SimulatedWorker& worker(int w) const { return *workers_[w].worker; }
  SharedSchedule* schedule() { return &schedule_; }
  SimulatedNetwork& network() { return network_; }
  const SimulatedNetwork& network() const { return network_; }
  // Iterations of all workers together, or of steps that all make.
  int64_t completed() const { return completed_; }
  int64_t now_ns() const { return clock_.now_ns; }
  MergeTime Now() const;

  // Runs `work` in the thread of worker `w`; RunInThread waits for it.
  std::future<void> Post(int w, std::function<void()> work) {
    return threads_[w % threads_.size()]->Post(std::move(work));
  }
  void RunInThread(int w, std::function<void()> work) { Post(w, std::move(work)).get(); }

  // Whether an observer or a condition has ended the run.
  bool Stopped();
  // Begins an iteration of worker `w`, unless the run ends; returns its number.
  std::optional<int64_t> Begin(int w);
  // Waits for its gradient, and returns its loss. Throws Error that names the worker.
  float FinishCompute(int w);
  // Draws how long an iteration of worker `w` lasts.
  int64_t DurationNs(int w);
  // Counts an iteration of this loss: reports, tests and stop conditions.
  void CountIteration(float loss);

  // ---- Iterations of workers that do not wait for each other ----

  void StartAll();
  bool AllFinished() const { return finished_ == options_.workers; }
  // The factor of the learning rate of the next iteration of worker `w`.
  virtual float RateFactor(int w) const { return (void)w, 1; }
  // An iteration of worker `w` has ended, and changed its weights.
  virtual void AfterIteration(int w) { (void)w; }

  // ---- Events, in the order of their times, then of their creation ----

  void At(int64_t at_ns, std::function<void()> event) {
    events_.emplace(std::pair(at_ns, next_event_++), std::move(event));
  }
  void Step();
  // Moves virtual time, between events.
  void AdvanceTo(int64_t at_ns) { clock_.now_ns = std::max(clock_.now_ns, at_ns); }
  bool has_events() const { return !events_.empty(); }

 private:
  struct VirtualClock : Clock {
    int64_t NowNs() const override { return now_ns; }
    int64_t now_ns = 0;
  };
  // Time of training, over all parts.
  struct TrainedClock : Clock {
    explicit TrainedClock(const SimulationCore* of) : core(*of) {}
    int64_t NowNs() const override { return core.TrainedNs(); }
    const SimulationCore& core;
  };
  // With what the next part begins.
  struct Beginning {
    std::vector<float> weights;
    RunState run;
    std::string path;  // of the file that holds it
  };

  // Expects that resume_ is of such a simulation; then, that it is of this net, and takes it.
  void CheckResumed() const;
  void Resume();
  void BeginPart();
  void RestoreParts();
  // Writes a snapshot, and goes on from it.
  void TakeSnapshot();
  void Rewind();
  int64_t TrainedNs() const {
    return trained_before_ns_ + std::min(now_ns(), trained_ns_) - begin_ns_;
  }
  void MakeTestNets();
  void StartIteration(int w);
  void EndIteration(int w);
  SimulationStatus StatusNow() const;
  void Test();

  const std::unique_ptr<ResumePoint> resume_;  // null: the run starts anew
  const SolverConfig config_;
  const SimulationOptions options_;
  LrPolicy policy_;
  VirtualClock clock_;
  int64_t begin_ns_ = 0, trained_ns_ = INT64_MAX;  // of this part's training
  int64_t trained_before_ns_ = 0;                  // in earlier parts
  TrainedClock trained_clock_{this};               // reads all of the above
  StopConditions stop_conditions_;
  ErrorSink errors_;
  SharedSchedule schedule_;
  Rng durations_;
  SimulatedNetwork network_;
  MovingAverage losses_;
  double rate_ = 0;  // of the last iteration
  std::vector<Slot> workers_;
  std::unique_ptr<DataService> test_data_;
  std::vector<std::unique_ptr<BuiltNet>> tests_;
  std::vector<float> merged_;
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> events_;
  uint64_t next_event_ = 0;
  std::optional<Beginning> beginning_;             // none: the run's start
  uint64_t bytes_before_ = 0, bytes_earlier_ = 0;  // of this part; in earlier parts
  int64_t completed_ = 0, tested_at_ = -1, saved_at_ = -1;
  int finished_ = 0;
  bool stopped_ = false;
  const SimulationObserver* observer_ = nullptr;
  std::vector<std::unique_ptr<ComputeThread>> threads_;  // last: they use all of the above
};

// Strategies hogwild and local: each worker is a node of a cluster.
std::unique_ptr<SimulationCore> MakeExchangeSimulation(const SolverConfig& config,
                                                       const SimulationOptions& options);
// `plan`: that of `config`.
std::unique_ptr<SimulationCore> MakeSynchronousSimulation(const SolverConfig& config,
                                                          const SimulationOptions& options,
                                                          const AllreducePlan& plan);
std::unique_ptr<SimulationCore> MakeGossipSimulation(const SolverConfig& config,
                                                     const SimulationOptions& options,
                                                     const GossipPlan& plan);

// Throws Error: an option is out of range.
[[noreturn]] void RefuseOption(const std::string& field, double value, const std::string& expected);

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATION_CORE_H_
