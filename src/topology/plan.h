// Configuration of one node: the transport endpoint and the exchange of each of its segments.
#ifndef MILLRACE_TOPOLOGY_PLAN_H_
#define MILLRACE_TOPOLOGY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/kernels/rules/merge_rule_registry.h"
#include "exchange/protocol/exchange_config.h"
#include "millrace/transport_registry.h"
#include "topology/machine.h"
#include "topology/topology.h"

namespace millrace::inline topology {

struct SegmentPlan {
  std::string name;
  size_t segment = 0;         // index in Topology::segments
  std::vector<NodeId> peers;  // ascending; at least one
  // By node id, including this node; "" for nodes that are not on the segment.
  std::vector<std::string> names;
  // transport, node and options are set; the clock is the default one.
  TransportConfig transport;
  // run, node, max_nodes, max_members, codec, position_codec, damping, heartbeat_ns and
  // peer_timeout_ns are set.
  // The caller sets incarnation, and the fields that depend on the transport.
  ExchangeConfig exchange;
  MergeRuleConfig rule;
  int64_t chunk_floats = 0;         // ReplicaArrays::chunk_floats
  double max_bytes_per_second = 0;  // of frames sent by this node; 0: no limit
  double begin = 0, end = 1;        // shares, see RangeOf()
  std::string key_file;             // resolved and checked key for frame authentication; "": none
  bool busy_poll = false;
  double solver_share = 1;  // share of the solvers' time for all segments of the node; 1: no limit
};

struct NodePlan {
  NodeId node = 0;
  std::string name;
  int solvers = 1;
  TopologyMemory memory;      // of the weights; checked to exist
  int shard = 0, shards = 1;  // reads part `shard` of `shards` of the data; 0 of 1: all
  bool distributed_evaluation = true;
  bool scales_rate = false;  // Topology::scales_rate
  // Nodes join by a rendezvous, which decides which of them begins the run
  // (Cluster::AllowBootstrap).
  bool is_elastic = false;
  std::vector<SegmentPlan> segments;  // the node's segments, in the file's order
  std::vector<std::string> notices;   // info lines for the caller to log
  std::vector<std::string> warnings;  // warnings for the caller to log
};

// Makes the plan of `node`, which is below topology.nodes.size(). Checks what only this node can
// check: interfaces, their MTUs, devices and key files. Throws Error with one line: file, line,
// field, and expected value.
NodePlan PlanFor(const Topology& topology, NodeId node, const Machine& machine = Machine::This());

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_PLAN_H_
