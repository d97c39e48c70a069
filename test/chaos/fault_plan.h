// Decides which faults a chaos run injects, and when. The plan is a pure function of a seed, so a
// run can be replayed. Carrying out the plan (test/chaos/program) needs root; making it does not.
#ifndef MILLRACE_TEST_CHAOS_FAULT_PLAN_H_
#define MILLRACE_TEST_CHAOS_FAULT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

enum class FaultKind {
  kKill,          // SIGKILL; restarted when the fault ends
  kKillLeader,    // as kKill, for the leader
  kKillTwo,       // as kKill, for two nodes at once
  kStop,          // SIGTERM; the node must exit cleanly, and is restarted
  kClockBack,     // SIGKILL; restarted with its wall clock set back
  kFreezeShort,   // SIGSTOP, and SIGCONT within the peer timeout
  kFreezeLong,    // SIGSTOP, and SIGCONT after the peer timeout
  kDiskFull,      // no space for the node's snapshots
  kIsolate,       // one node is partitioned from all others
  kSplit,         // network partition into two groups of nodes
  kOneWay,        // `first` cannot send to `second`; the reverse direction works
  kPair,          // two nodes cannot reach each other; both reach all others
  kDeaf,          // a node receives nothing; what it sends arrives
  kMute,          // nothing that a node sends arrives; it receives
  kLoss,          // random frame loss
  kCorrupt,       // random changes to the bytes of frames
  kDuplicate,     // frames are delivered twice
  kReorder,       // frames are delivered out of order
  kBlackHole,     // frames above some size are dropped silently
  kRateLimit,     // low bandwidth on one node's link
  kLinkDown,      // one node's interface is down
  kRandomFrames,  // forged frames: random bytes
  kReplay,        // forged frames: replayed old ones
  kTruncate,      // forged frames: truncated
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kTruncate) + 1;

const char* NameOf(FaultKind kind);
// True if the fault acts on processes. Such a fault leaves at least one process undisturbed.
bool IsOfProcesses(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKill;
  double begin = 0, end = 0;  // seconds since the start of the plan
  // Node indices; -1 means none, or all links for a network fault. The node of kKillLeader is
  // determined when the fault begins.
  int first = -1, second = -1;
  // kSplit: bit set of the nodes in one group. kOneWay: frames from `first` to `second` are
  // dropped.
  uint32_t group = 0;
  // Fraction of frames from 0 to 1; kBlackHole: bytes; kRateLimit: Mbit/s; kClockBack: seconds.
  double value = 0;
};
// Log text such as "12.3-14.1 s loss b 0.25".
std::string Describe(const Fault& fault);

struct PlanOptions {
  uint64_t seed = 0;
  int nodes = 3;       // 3 to 9
  double seconds = 0;  // faults that would end later are left out
  // Number of faults in the earlier plans of the same seed. This plan continues with the kinds that
  // they have not used.
  int first_kind = 0;
  uint32_t without = 0;  // bit set of excluded kinds; must not contain all kinds
};

// Returns the faults sorted by begin time. Each kind occurs once before any kind repeats. About a
// third of the faults begin after all others have ended; the others overlap with up to three
// faults. No node has two process faults at once, and at any time at least one node has none.
std::vector<Fault> MakePlan(const PlanOptions& options);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_FAULT_PLAN_H_
