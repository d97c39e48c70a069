// Applies the faults of a fault plan to a cluster and reverts them.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_INJECTOR_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_INJECTOR_H_

#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "test/chaos/fault_plan.h"
#include "test/chaos/program/node.h"
#include "test/netns/bad_switch.h"
#include "test/netns/network.h"

namespace millrace::test {

// Counts by FaultKind.
struct FaultCounts {
  std::array<int, kFaultKinds> injected{}, skipped{};
};

// Not thread-safe.
class FaultInjector {
 public:
  // The caller keeps all arguments alive longer than the injector. `snapshots`: one directory per
  // node, each a small file system of its own; if empty, kDiskFull cannot be injected. `log`
  // receives one line per fault.
  FaultInjector(const Network& network, BadSwitch* bad,
                std::vector<std::unique_ptr<ChaosNode>>* nodes, std::vector<std::string> snapshots,
                std::ostream* log);

  // Skips the fault if no healthy node would remain, if a node that it disturbs is down or frozen,
  // or if a full disk cannot be emulated.
  void Begin(const Fault& fault, double now);
  // Reverts the faults that are due to end, or all faults if `now` is negative. Restarts processes
  // that should run and have exited.
  void EndDue(double now);
  // Sends forged frames and restarts processes. Call it often.
  void Poll();

  // The node's process has exited by itself: restarts it, unless its disk is full.
  void Lost(int node);
  bool DiskIsFull(int node) const;
  const FaultCounts& counts() const { return counts_; }

 private:
  using Nodes = std::vector<std::unique_ptr<ChaosNode>>;

  bool MayDisturb(const std::vector<int>& disturbed) const;
  std::vector<int> ProcessesOf(const Fault& fault) const;
  // Returns false if the fault cannot be applied.
  bool Apply(const Fault& fault);
  bool ApplyToProcesses(const Fault& fault, const std::vector<int>& disturbed);
  void Revert(const Fault& fault);
  void SetHarms();
  Harm HarmOf(int from, int to) const;
  static bool IsOnLink(const Fault& fault, int from, int to);
  static void Combine(const Fault& fault, Harm* harm);
  void FillDisk(int node);
  std::string FillerOf(int node) const;
  void Say(const std::string& what, const Fault& fault, double now);

  const Network& network_;
  BadSwitch& bad_;
  Nodes& nodes_;
  const std::vector<std::string> snapshots_;
  std::ostream& log_;
  std::vector<Fault> active_;         // kKillLeader with the node that was the leader
  std::vector<bool> down_, wanted_;   // by node
  std::vector<int64_t> clock_shift_;  // for the next start
  FaultCounts counts_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_INJECTOR_H_
