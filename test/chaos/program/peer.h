// A training by PyTorch's DistributedDataParallel under the faults of a plan, for comparison:
// elastic (torchrun) with checkpoints, over gloo. Of the peer, only its rate is judged.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_PEER_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_PEER_H_

#include <csignal>
#include <string>
#include <vector>

#include "test/chaos/fault_plan.h"
#include "test/chaos/program/node.h"

namespace millrace::test {

struct PeerOptions {
  std::string python;        // path of an interpreter that has torch
  std::string folder;        // for logs and checkpoints; recreated
  PlanOptions plan;          // the faults
  double whole_seconds = 0;  // before the faults, with all nodes
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

struct PeerResult {
  std::string failure;    // why there are no rates; ""
  double rate = 0;        // iterations (batches of one node) per second before the faults
  double fault_rate = 0;  // the same from the begin of the faults to their end; what is lost with a
                          // process that dies, since its last checkpoint, does not count
  int injected = 0;
  std::vector<JoinTime> joins;  // until a process trained with the others
};

PeerResult TrainPeer(const PeerOptions& options);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_PEER_H_
