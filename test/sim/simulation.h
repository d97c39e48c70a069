// A simulated run: nodes, links, faults, and the properties that must hold at every step and at
// the end. docs/exchange.md states the properties.
#ifndef MILLRACE_TEST_SIM_SIMULATION_H_
#define MILLRACE_TEST_SIM_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/sim/network.h"
#include "test/sim/scenario.h"
#include "test/sim/sim_node.h"

namespace millrace::sim {

// Statistics of a run that violated no property.
struct Summary {
  int64_t ticks = 0;
  uint64_t frames = 0;
  uint64_t diffs_merged = 0;
  uint64_t resends = 0;
  uint64_t takeovers = 0;
  uint64_t incarnations_lost = 0;
  uint64_t views = 0;
  uint32_t digest = 0;  // CRC of all frames in sending order
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario);

  // Runs until all nodes are quiescent, then checks that they stay so. Returns the failure if a
  // property is violated.
  std::optional<Failure> Run();
  const Summary& summary() const { return summary_; }
  // The state of all nodes, in readable form.
  std::string Describe() const;
  // Prints a line whenever a node changes its view.
  void Trace() { trace_ = true; }

 private:
  bool OthersKnowAll(uint16_t id) const;
  void Happen();
  bool Step(uint16_t id, Failure* failure);
  // Sends the frames of a node whose time in the transport has passed; with `all`, every frame.
  void Transmit(uint16_t id, bool all);
  void Crash(uint16_t id);
  int64_t LastsUntil() const;
  bool Tick(Failure* failure);
  bool Settled() const;
  std::vector<const SimNode*> Running() const;
  uint64_t FramesSent() const;
  bool CheckEnd(Failure* failure);
  bool CheckReplicas(Failure* failure) const;
  bool CheckConservation(Failure* failure) const;
  bool CheckClocks(Failure* failure) const;
  bool CheckSurvivors(Failure* failure) const;
  bool CheckSilence(Failure* failure);
  bool CheckLinks(Failure* failure) const;
  void Summarise();
  void TraceView(uint16_t id);

  // A frame in a node's transport. The transport reads its payload when the frame leaves.
  struct Waiting {
    PostedFrame frame;
    int64_t leaves_at = 0;
  };

  const Scenario scenario_;
  Rng rng_;
  Network network_;
  std::vector<std::deque<Waiting>> waiting_;  // by node
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<const SimNode*> all_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
  int64_t cut_until_ = 0;
  size_t next_event_ = 0;
  bool training_ = true;
  bool trace_ = false;
  std::vector<ViewId> traced_;  // by node
  uint32_t highest_epoch_ = 0;
  Summary summary_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SIMULATION_H_
