// Which faults a chaos run injects, and when: a pure function of a seed, so that a run can be
// replayed. Who carries the plan out (test/chaos/program) needs root; the plan itself does not.
#ifndef MILLRACE_TEST_CHAOS_FAULT_PLAN_H_
#define MILLRACE_TEST_CHAOS_FAULT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

enum class FaultKind {
  kKill,          // SIGKILL; started again when the fault ends
  kKillLeader,    // the same of the node that leads
  kKillTwo,       // the same of two nodes at once
  kStop,          // SIGTERM; the node has to end well, and is started again
  kClockBack,     // SIGKILL; started again with its wall clock set back
  kFreezeShort,   // SIGSTOP and SIGCONT within the peer timeout
  kFreezeLong,    // the same after the peer timeout
  kDiskFull,      // no room for the node's snapshots
  kIsolate,       // a node is cut off from all others
  kSplit,         // two groups of nodes do not reach each other
  kOneWay,        // a node does not reach another, which still reaches it
  kPair,          // two nodes do not reach each other; both reach all others
  kLoss,          // frames are lost at random
  kCorrupt,       // bytes of frames are changed
  kDuplicate,     // frames come twice
  kReorder,       // frames are overtaken
  kBlackHole,     // frames longer than some size vanish
  kRateLimit,     // a node's link carries little
  kLinkDown,      // a node's interface is down
  kRandomFrames,  // hostile frames: random bytes
  kReplay,        // hostile frames: repeats of old ones
  kTruncate,      // hostile frames: cut short
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kTruncate) + 1;

const char* NameOf(FaultKind kind);
// Whether it is done to processes, of which it leaves at least one alone.
bool IsOfProcesses(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKill;
  double begin = 0, end = 0;  // seconds since the plan began
  // Nodes. -1: none; of network faults all links. The node of kKillLeader is found when it begins.
  int first = -1, second = -1;
  // kSplit: the nodes of one group, by bit. kOneWay: `first` sends in vain to `second`.
  uint32_t group = 0;
  // Shares of frames from 0 to 1; kBlackHole: bytes; kRateLimit: Mbit/s; kClockBack: seconds.
  double value = 0;
};
// "12.3-14.1 s loss b 0.25", for logs.
std::string Describe(const Fault& fault);

struct PlanOptions {
  uint64_t seed = 0;
  int nodes = 3;       // at least 3, at most 9
  double seconds = 0;  // faults that would end later are left out
  // How many faults the plans before this one of the same seed have: it goes on with the kinds
  // that these have left out.
  int first_kind = 0;
  uint32_t without = 0;  // kinds that are left out, by bit; not all
};

// In the order of their beginnings. Each kind comes once before one comes a second time. About
// a third of the faults begin when all others are over, the others overlap up to three of them. No
// node has two faults of processes at once, and at any time one node at least has none.
std::vector<Fault> MakePlan(const PlanOptions& options);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_FAULT_PLAN_H_
