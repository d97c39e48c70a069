// A cluster as described by its topology.prototxt: nodes and the segments between them, validated
// and with all defaults filled in. docs/topology.md has the rules.
//
// Plain values: only reading a file accesses the machine. Checks that only one of the nodes can
// make (interfaces, keys) are in plan.h. Thread-safe as values are.
#ifndef MILLRACE_TOPOLOGY_TOPOLOGY_H_
#define MILLRACE_TOPOLOGY_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "millrace/device.h"
#include "millrace/node_id.h"
#include "millrace/transport_descriptor.h"
#include "proto/parse.h"

namespace millrace::inline topology {

// A network adapter of a node.
struct TopologyAdapter : AdapterFields {
  std::string name;  // "" for the node's own fields
};

// The memory that holds a node's weights.
struct TopologyMemory {
  DeviceType type = DeviceType::kCpu;
  int ordinal = 0;  // index among the devices of that type
  bool on_host() const { return type == DeviceType::kCpu; }
};

struct TopologyNode {
  std::string name;
  TopologyMemory memory;
  int solvers = 1;                        // on CPUs
  int shard = 0;                          // data shard, from 0 to the number of nodes - 1
  std::vector<TopologyAdapter> adapters;  // the node's own, then the named ones
  std::string control;                    // "host:port" of its control service; "": none

  // Null if there is no adapter of that name.
  const TopologyAdapter* FindAdapter(const std::string& adapter_name) const;
};

struct TopologySegment {
  std::string name;
  std::string transport;      // a registered name
  std::vector<NodeId> nodes;  // ascending, at least two
  std::string adapter;        // "": each node's own
  CodecConfig codec;
  Codec position_codec = Codec::kFloat32;
  double position_share = kPositionShare;  // with position_codec "topk"
  MergeRuleConfig rule;  // with all its parameters
  // Why it has this rule, if the file names none (exchange/kernels/rules/default_merge_rule.h).
  std::string default_rule = {};
  // Whether the file does.
  bool names_rule = true, names_damping = true, names_codec = true, names_position_codec = true;
  int mtu = 1500;               // bytes
  int64_t max_frame_bytes = 0;  // header and payload that fit the MTU
  int64_t chunk_floats = 0;     // at least 16; equal on all nodes
  double max_megabits = 0;      // send limit of each node, Mbit/s; 0: no limit
  std::string key_file;         // as in the file; "": none
  int port = 0;                 // 1 to 65535; 0: endpoints of the transport have no ports
  double begin = 0, end = 1;    // range as shares of the weights
  int64_t heartbeat_ns = 0, peer_timeout_ns = 0;
  std::map<std::string, std::string> options;  // further options of the transport
  bool busy_poll = false;
  bool damping = true;      // ExchangeConfig::damping
  double solver_share = 1;  // PaceConfig::share of all segments of a node; 1: full pace

  bool Joins(NodeId node) const;
  // Upper bound of its node ids: ExchangeConfig::max_nodes.
  uint16_t max_nodes() const { return static_cast<uint16_t>(nodes.back() + 1); }
};

struct Topology {
  std::string name;
  std::vector<TopologyNode> nodes;  // a node's id is its index
  std::vector<TopologySegment> segments;
  bool shard_data = true;
  bool scales_rate =
      false;  // the nodes' learning rate (exchange/kernels/rules/default_merge_rule.h)
  bool distributed_evaluation = true;
  // Identifies the file's content, independent of its formatting, so that nodes with different
  // files detect the mismatch. 64-bit FNV-1a over the message in binary form.
  uint64_t digest = 0;
  SourceMap source;  // of the file, for later errors
};

// Names of the transports that a topology file may use: all that reach other machines by
// themselves, also those that this build lacks.
std::vector<std::string> TransportsForTopologies();

// Reads and checks a file. Throws Error with one line: file, line, field,
// and expected value. `transports`: the accepted values of a segment's `transport`, all registered.
// `scales`: the caller scales its learning rate where Topology::scales_rate; false: as if the file
// had scaling: "none".
Topology LoadTopology(const std::string& path, const std::vector<std::string>& transports,
                      bool scales = true);
// The same for text in memory, without logging; `name` replaces the file name.
Topology ParseTopology(const std::string& text, const std::string& name,
                       const std::vector<std::string>& transports, bool scales = true);

// The cluster of a run whose nodes join and leave by a rendezvous (rendezvous/registration.h):
// `text`, which names no nodes, and `max_nodes` nodes n0, n1, ... without addresses, on every
// segment. `cluster`: its name if the text has none. A text without a segment gets one, named net.
// Throws Error if a transport cannot change the addresses of its peers.
Topology ParseElasticTopology(const std::string& text, const std::string& name,
                              const std::string& cluster, int max_nodes,
                              const std::vector<std::string>& transports, bool scales = true);

// The run id in the frames of this segment, which keeps clusters and segments apart. 64-bit FNV-1a
// over the cluster's name, a zero byte, and the segment's name.
uint64_t RunId(const Topology& topology, size_t segment);

// Elements [begin, end) of the weights.
struct WeightRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const WeightRange&) const = default;
};
// Whether two ranges [begin, end) intersect.
template <typename A, typename B>
bool Overlap(const A& a, const B& b) {
  return a.begin < b.end && b.begin < a.end;
}
// The range of `weights` elements that a segment carries. Shares are rounded to the nearest
// element, so ranges that are adjacent in the file are adjacent in the array. The range is empty if
// the share is less than about one element.
WeightRange RangeOf(const TopologySegment& segment, int64_t weights);

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_TOPOLOGY_H_
