// Text of a topology file: it is accepted, or rejected with one line. An accepted file gives a plan
// for each node, or a line that states why this machine has none.
#include "base/error.h"
#include "test/fuzz/support/fuzz.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::fuzz {
namespace {

const Machine& AMachine() {
  static const Machine machine = {[] {
                                    return std::vector<NetworkInterface>{
                                        {"eth1", "02:00:00:00:00:01", 9000},
                                        {"eth2", "02:00:00:00:00:02", 1500},
                                        {"lo", "", 65536}};
                                  },
                                  [](const std::string& path, const std::string&) {
                                    if (path != "key")
                                      throw Error(path, ": No such file or directory");
                                    return path;
                                  },
                                  [](DeviceType, int ordinal) {
                                    if (ordinal > 1) throw Error("there is no such device");
                                  }};
  return machine;
}

bool IsRefusal(const Error& error) {
  const std::string text = error.what();
  return text.rfind("f:", 0) == 0 && text.find('\n') == std::string::npos;
}

bool PlanIsSound(const Topology& topology, NodeId node) {
  const NodePlan plan = PlanFor(topology, node, AMachine());
  // An accepted topology connects all nodes.
  if (plan.segments.empty() && topology.nodes.size() > 1) return false;
  if (plan.shard < 0 || plan.shard >= plan.shards) return false;
  for (const SegmentPlan& segment : plan.segments) {
    if (segment.peers.empty() || segment.chunk_floats < 16 || node >= segment.exchange.max_nodes ||
        segment.exchange.peer_timeout_ns < 3 * segment.exchange.heartbeat_ns ||
        !(segment.max_bytes_per_second >= 0) || !segment.transport.Has("max_frame_bytes")) {
      return false;
    }
  }
  return true;
}

// Whether the ranges of node 0's segments cover the whole array.
bool RangesCover(const Topology& topology) {
  for (const int64_t size : {1, 1000}) {
    std::vector<bool> covered(size);
    for (const TopologySegment& segment : topology.segments) {
      if (!segment.Joins(0)) continue;
      const WeightRange range = RangeOf(segment, size);
      if (range.begin < 0 || range.end > size || range.begin > range.end) return false;
      for (int64_t i = range.begin; i < range.end; ++i) covered[i] = true;
    }
    if (topology.nodes.size() > 1 && covered != std::vector<bool>(size, true)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {
      "name: 'pair'\nnode { name: 'a' address: '10.0.0.1' solvers: 2 }\n"
      "node { name: 'b' address: 'fd00::2' shard: 1 }\nsegment { name: 's' transport: 'udp' }\n",
      "name: 'rack' shard_data: false\n"
      "node { name: 'a' interface: 'eth1' mac: '02:00:00:00:00:01' }\n"
      "node { name: 'b' interface: '02:00:00:00:00:02' }\n"
      "segment { name: 's' transport: 'packet' mtu: 9000 codec: 'int8' max_mbps: 80.5 }\n",
      "name: 'tree' node { name: 'a' address: 'a' mac: '02:00:00:00:00:01' }\n"
      "node { name: 'b' address: 'b' mac: '02:00:00:00:00:02' } node { name: 'c' address: 'c' }\n"
      "segment { name: 's' transport: 'packet' node: 'a' node: 'b' chunk_floats: 64 }\n"
      "segment { name: 't' transport: 'udp' node: 'b' node: 'c' codec: 'sparse' threshold: 0.1\n"
      "  key_file: 'key' port: 7 heartbeat_ms: 50 peer_timeout_ms: 500 busy_poll: true }\n",
      "name: 'twin' node { name: 'a' address: 'a' adapter { name: 'x' address: 'a2' } }\n"
      "node { name: 'b' address: 'b' adapter { name: 'x' address: 'b2' } }\n"
      "segment { name: 's' transport: 'udp' range_end: 0.5 option { key: 'gso' value: '0' } }\n"
      "segment { name: 't' transport: 'udp' range_begin: 0.5 adapter: 'x' merge_rule: 'additive' "
      "}\n",
      "name: 'one' distributed_evaluation: false node { name: 'a' }\n",
      "name: 'rule' node { name: 'a' address: 'a' option { key: 'x' value: '1' } }\n"
      "node { name: 'b' address: 'b' } segment { name: 's' transport: 'udp'\n"
      "  merge_rule: 'additive' merge_rule_param { key: 'x' value: 0.5 } }\n",
      "name: 'gpu' node { name: 'a' address: 'a' memory: 'cuda:1' }\n"
      "node { name: 'b' address: 'b' memory: 'host' } node { name: 'c' memory: 'cuda:2' }\n"
      "segment { name: 's' transport: 'udp' node: 'a' node: 'b' chunk_floats: 64 }\n",
  };
}

bool Target(const std::string& input) {
  Topology topology;
  try {
    topology = ParseTopology(input, "f", {"packet", "udp"});
  } catch (const Error& error) {
    return IsRefusal(error);
  }
  for (size_t node = 0; node < topology.nodes.size(); ++node) {
    try {
      if (!PlanIsSound(topology, static_cast<NodeId>(node))) return false;
    } catch (const Error& error) {
      if (!IsRefusal(error)) return false;
    }
  }
  return RangesCover(topology);
}

}  // namespace millrace::fuzz
