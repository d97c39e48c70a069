// Does to a cluster what a fault plan says, and takes it back.
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

// By kind.
struct FaultCounts {
  std::array<int, kFaultKinds> injected{}, skipped{};
};

// Not thread-safe.
class FaultInjector {
 public:
  // All of these outlive it. `snapshots`: a folder for each node, a small file system of its own
  // each; none: there is no fault of full disks. `log`: a line for each fault.
  FaultInjector(const Network& network, BadSwitch* bad,
                std::vector<std::unique_ptr<ChaosNode>>* nodes, std::vector<std::string> snapshots,
                std::ostream* log);

  // A fault is skipped if no node in good order would be left, or its node is not there.
  void Begin(const Fault& fault, double now);
  // Ends those whose end has come; all of them if `now` is negative. Starts processes that are
  // to run and have ended.
  void EndDue(double now);
  // To be called often: hostile frames are sent, and what had to stop is started again.
  void Poll();

  // The node's process has ended by itself: it is started again, but not onto a full disk.
  void Lost(int node);
  bool DiskIsFull(int node) const;
  const FaultCounts& counts() const { return counts_; }

 private:
  using Nodes = std::vector<std::unique_ptr<ChaosNode>>;

  bool MayDisturb(const std::vector<int>& disturbed) const;
  std::vector<int> ProcessesOf(const Fault& fault) const;
  // False: it cannot be done.
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
  std::vector<Fault> active_;         // kKillLeader with the node that led
  std::vector<bool> down_, wanted_;   // by node
  std::vector<int64_t> clock_shift_;  // of the next start
  FaultCounts counts_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_INJECTOR_H_
