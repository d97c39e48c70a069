// Runs a simulation and keeps what tests look at.
#ifndef MILLRACE_TEST_SIMULATE_SIMULATE_SUPPORT_H_
#define MILLRACE_TEST_SIMULATE_SIMULATE_SUPPORT_H_

#include <cstdint>
#include <vector>

#include "simulate/simulation.h"

namespace millrace::test {

struct Simulated {
  std::vector<float> weights;
  SimulationStatus end;
  double distance = 0;
  std::vector<int64_t> displayed, tested;
  double accuracy = 0;  // of the last test
};

inline Simulated Simulate(const SolverConfig& config, const SimulationOptions& options) {
  Simulation simulation(config, options);
  Simulated outcome;
  SimulationObserver observer;
  observer.iteration = [&](const SimulationStatus& status) {
    outcome.displayed.push_back(status.iterations);
  };
  observer.test = [&](const SimulationStatus& status, int, const Evaluation& found) {
    outcome.tested.push_back(status.iterations);
    for (const OutputMean& output : found.outputs) {
      if (output.name == "accuracy") outcome.accuracy = output.mean;
    }
  };
  outcome.end = simulation.Run(observer);
  outcome.weights = simulation.weights();
  outcome.distance = simulation.LargestDistance();
  return outcome;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SIMULATE_SIMULATE_SUPPORT_H_
