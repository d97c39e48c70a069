// A cluster as its topology.prototxt describes it: nodes, and the segments between
// them, checked and with every default filled in. docs/topology.md has the rules.
//
// Plain values; reading a file is the only thing here that touches the machine. What
// only one of the nodes can check (its interfaces, its keys) is plan.h's business.
// Thread-safe as values are.
#ifndef MILLRACE_TOPOLOGY_TOPOLOGY_H_
#define MILLRACE_TOPOLOGY_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/node_id.h"
#include "device/device.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/merge_rule.h"
#include "proto/parse.h"

namespace millrace {

// A network adapter of a node; texts are empty where the file has none.
struct TopologyAdapter {
  std::string name;       // "" for the one that stands in the node itself
  std::string address;    // host name or IP address
  std::string interface;  // name or MAC address
  std::string mac;        // of `mac`, else of `interface`; lower case; "" if neither is one
};

// Whose memory a node's weights lie in.
struct TopologyMemory {
  DeviceType type = DeviceType::kCpu;
  int ordinal = 0;  // among the devices of that type
  bool on_host() const { return type == DeviceType::kCpu; }
};

struct TopologyNode {
  std::string name;
  TopologyMemory memory;
  int solvers = 1;                        // on CPUs
  int shard = 0;                          // of the data, from 0 to the number of nodes - 1
  std::vector<TopologyAdapter> adapters;  // the node's own one, then those with names

  // Null if there is none of that name.
  const TopologyAdapter* FindAdapter(const std::string& adapter_name) const;
};

struct TopologySegment {
  std::string name;
  std::string transport;      // a registered name
  std::vector<NodeId> nodes;  // those it joins, ascending, two at least
  std::string adapter;        // "" for the nodes' own ones
  CodecConfig codec;
  MergeRule rule = MergeRule::kAdditive;
  int mtu = 1500;               // bytes
  int64_t max_frame_bytes = 0;  // header and payload, what fits the MTU
  int64_t chunk_floats = 0;     // 16 at least; equal on all nodes
  double max_megabits = 0;      // a second that each node sends at most; 0: no limit
  std::string key_file;         // as written; "" for none
  int port = 0;                 // udp: 1 to 65535; else 0
  double begin = 0, end = 1;    // the range, as shares of the weights
  int64_t heartbeat_ns = 0, peer_timeout_ns = 0;
  std::map<std::string, std::string> options;  // of the transport, beyond the above
  bool busy_poll = false;
  bool damping = true;      // ExchangeConfig::damping
  double solver_share = 1;  // PaceConfig::share of all segments of a node; 1: full pace

  bool Joins(NodeId node) const;
  // Ids of its nodes are below this: ExchangeConfig::max_nodes.
  uint16_t max_nodes() const { return static_cast<uint16_t>(nodes.back() + 1); }
};

struct Topology {
  std::string name;
  std::vector<TopologyNode> nodes;  // a node's id is its index
  std::vector<TopologySegment> segments;
  bool shard_data = true;
  bool distributed_evaluation = true;
  // Lines on deprecated fields of the file, which begin with the place.
  std::vector<std::string> warnings;
  // Of all that the file says, but not of how it is laid out: nodes that were given
  // different files can tell. FNV-1a with 64 bits over the message in binary form.
  uint64_t digest = 0;
  SourceMap source;  // of the file, for errors that come later
};

// The names of transports that a file may use: those registered that reach other
// machines by themselves.
std::vector<std::string> TransportsForTopologies();

// Reads and checks a file. Throws Error, one line: file, line, field, what was expected.
// `transports`: the names that a segment's `transport` may have.
Topology LoadTopology(const std::string& path, const std::vector<std::string>& transports);
// The same for text already in memory; `name` stands for the file.
Topology ParseTopology(const std::string& text, const std::string& name,
                       const std::vector<std::string>& transports);

// What frames of this segment carry as their run, so that neither two clusters nor two
// segments mix: FNV-1a with 64 bits over the cluster's name, a zero byte, the segment's.
uint64_t RunId(const Topology& topology, size_t segment);

// Elements [begin, end) of the weights.
struct WeightRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const WeightRange&) const = default;
};
// Whether two ranges [begin, end) have something in common.
template <typename A, typename B>
bool Overlap(const A& a, const B& b) {
  return a.begin < b.end && b.begin < a.end;
}
// The part of `weights` elements that a segment carries. Shares are rounded to the
// nearest element, so ranges that meet in the file meet in the array. It is empty if
// the share is less than about an element.
WeightRange RangeOf(const TopologySegment& segment, int64_t weights);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_TOPOLOGY_H_
