// Training by many workers in one process, in virtual time: real solvers, strategies, exchanges and
// merge rules on a simulated network. What happens when depends on the options and the seed alone,
// so a run repeats bit for bit, on any number of cores.
//
// An iteration reads the weights that the worker has when it begins, and changes them when it ends.
// Its virtual duration is given, not measured.
#ifndef MILLRACE_SIMULATE_SIMULATION_H_
#define MILLRACE_SIMULATE_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "simulate/simulated_network.h"
#include "solver/solver_config.h"
#include "train/evaluation/evaluator.h"

namespace millrace::inline simulate {

struct SimulationOptions {
  int workers = 2;      // 1 to 64
  double step_ms = 10;  // virtual duration of an iteration; above 0
  double jitter = 0.1;  // iterations last step_ms times 1 - jitter to 1 + jitter; 0 to 1
  std::map<int, double> slow = {};  // worker -> factor of the duration of its iterations; above 0
  NetworkModel network = {};
  int mtu = 9000;  // bytes of an IP packet, 576 to 65535
  // Without a name, and without codecs and damping: as a segment of so many nodes whose topology
  // file names none (exchange/kernels/rules/default_merge_rule.h).
  MergeRuleConfig rule = {.name = "", .parameters = {}};
  bool scales = false;  // Topology.scaling is "linear"
  // Workers scale their learning rate (solver/rate_scale.h). The default rule sets it.
  bool scales_rate = false;
  std::optional<CodecConfig> codec = {};
  std::optional<Codec> position_codec = {};  // ExchangeConfig::position_codec
  double position_share = kPositionShare;    // ExchangeConfig::position_share
  std::optional<bool> damping = {};          // of stale exchanges
  uint64_t seed = 1;  // of the network and of durations; the solver file has its own
  int threads = 0;    // that compute; 0: one for each core
  // After so many iterations of all workers together, and at the end, all come to rest, write a
  // snapshot and go on from it. 0: no snapshots.
  int64_t snapshot_every = 0;
  std::string snapshot = {};  // the .solverstate of a simulation to continue; "": none
};

// What has happened up to a moment.
struct SimulationStatus {
  // Completed, of all workers together; of workers that step together, steps that all have made.
  int64_t iterations = 0;
  double seconds = 0;       // virtual time since training began
  double loss = 0;          // mean of the last average_loss iterations, or of one per worker
  double rate = 0;          // learning rate of the last iteration
  double staleness = 0;     // iterations of all workers between two positions of a chunk, mean
  uint64_t bytes_sent = 0;  // of all workers together, since training began
  std::string stop_reason;  // one line about the stop condition that ends the run; "": none
};

// Called in the thread that runs the simulation.
struct SimulationObserver {
  // After every `display` iterations of the solver file.
  std::function<void(const SimulationStatus&)> iteration;
  // A test of net `index`, of the merged weights: those of the masters, of the center, or the mean.
  std::function<void(const SimulationStatus&, int index, const Evaluation&)> test;
  // True ends the simulation early. May be null.
  std::function<bool()> stop;
};

class SimulationCore;

class Simulation {
 public:
  // Throws Error for options out of range, and for a solver file that cannot be trained.
  Simulation(const SolverConfig& config, const SimulationOptions& options);
  ~Simulation();

  // Trains for max_iter iterations of all workers together, or as many steps of workers that step
  // together, or until a stop condition is met in virtual time, and brings the replicas together.
  // Throws Error, naming the worker, if one cannot go on, or if the exchange does not come to rest.
  SimulationStatus Run(const SimulationObserver& observer);

  // After Run: the weights of worker 0. All others have the same, where the rule ends with none
  // unsent.
  const std::vector<float>& weights() const;
  // The largest difference between a weight of worker 0 and that of any other.
  double LargestDistance() const;
  // Writes a .caffemodel of the weights.
  void Save(const std::string& path);

 private:
  std::unique_ptr<SimulationCore> core_;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATION_H_
