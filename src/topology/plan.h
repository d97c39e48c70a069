// What one node of a topology has to set up: its endpoints and exchanges, segment by
// segment.
#ifndef MILLRACE_TOPOLOGY_PLAN_H_
#define MILLRACE_TOPOLOGY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/kernels/merge_rule.h"
#include "exchange/protocol/exchange_config.h"
#include "topology/machine.h"
#include "topology/topology.h"
#include "transport/registry.h"

namespace millrace {

struct SegmentPlan {
  std::string name;
  size_t segment = 0;         // its index in Topology::segments
  std::vector<NodeId> peers;  // ascending; one at least
  // By node id, this one's included; "": a node that the segment does not join.
  std::vector<std::string> names;
  // transport, node and options are set; the clock is the default one.
  TransportConfig transport;
  // run, node, max_nodes, max_members, codec, heartbeat_ns and peer_timeout_ns are set. The caller
  // sets incarnation, and what depends on the transport it gets.
  ExchangeConfig exchange;
  MergeRuleConfig rule;
  int64_t chunk_floats = 0;         // ReplicaArrays::chunk_floats
  double max_bytes_per_second = 0;  // of frames that this node sends; 0: no limit
  double begin = 0, end = 1;        // as RangeOf() takes them
  std::string key_file;             // whose key signs the frames, found and checked; "" for none
  bool busy_poll = false;
  double solver_share = 1;  // of the solvers' time that the node's segments may take; 1: all
};

struct NodePlan {
  NodeId node = 0;
  std::string name;
  int solvers = 1;
  TopologyMemory memory;      // of the weights; it is there
  int shard = 0, shards = 1;  // reads part `shard` of `shards` of the data; 0 of 1: all
  bool distributed_evaluation = true;
  std::vector<SegmentPlan> segments;  // those that join this node, in the file's order
  std::vector<std::string> notices;   // lines that the caller logs
  std::vector<std::string> warnings;  // the same, as warnings
};

// Checks what only this node can: interfaces, their MTUs, key files. Throws Error, one
// line: file, line, field, what was expected. `node` is below topology.nodes.size().
NodePlan PlanFor(const Topology& topology, NodeId node, const Machine& machine = Machine::This());

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_PLAN_H_
