#include "topology/plan.h"

#include <glog/logging.h>

#include <algorithm>

#include "proto/parse.h"
#include "topology/read_fields.h"
#include "transport/network_names.h"

namespace millrace::inline topology {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr int kDefaultMtu = 1500;

// 16-bit number that separates clusters and segments on a shared network before their frames are
// decoded: the run id, folded by XOR.
uint16_t GroupOf(uint64_t run) {
  return static_cast<uint16_t>(run ^ run >> 16 ^ run >> 32 ^ run >> 48);
}

class Planner {
 public:
  Planner(const Topology& topology, NodeId node, const Machine& machine)
      : topology_(topology), machine_(machine), node_(node) {}

  NodePlan Plan();

 private:
  SegmentPlan PlanSegment(size_t index);
  void PlanTransport(const TransportDescriptor& transport, SegmentPlan* plan);
  void PlanAddresses(const TransportDescriptor& transport, SegmentPlan* plan);
  const TopologyAdapter& AdapterOf(NodeId node, const TopologySegment& segment) const {
    return *topology_.nodes[node].FindAdapter(segment.adapter);
  }
  const NetworkInterface& FindInterface(const TopologyAdapter& own);
  void CheckInterface(const TopologyAdapter& own, const NetworkInterface& interface, size_t index);
  std::string FindKey(size_t index);
  bool StaysOnThisMachine(const TransportDescriptor& transport, const SegmentPlan& plan) const;
  void CheckDevice(const TopologyMemory& memory);

  const Topology& topology_;
  const Machine& machine_;
  const NodeId node_;
  std::vector<NetworkInterface> interfaces_;  // listed on first use
  bool listed_ = false;
  std::vector<std::string> notices_, warnings_;
};

NodePlan Planner::Plan() {
  const TopologyNode& node = topology_.nodes[node_];
  NodePlan plan;
  plan.node = node_;
  plan.name = node.name;
  plan.solvers = node.solvers;
  plan.memory = node.memory;
  if (!plan.memory.on_host()) CheckDevice(plan.memory);
  plan.shard = topology_.shard_data ? node.shard : 0;
  plan.shards = topology_.shard_data ? static_cast<int>(topology_.nodes.size()) : 1;
  plan.distributed_evaluation = topology_.distributed_evaluation;
  plan.scales_rate = topology_.scales_rate;
  for (size_t i = 0; i < topology_.segments.size(); ++i) {
    if (topology_.segments[i].Joins(node_)) plan.segments.push_back(PlanSegment(i));
  }
  plan.notices = std::move(notices_);
  plan.warnings = std::move(warnings_);
  return plan;
}

SegmentPlan Planner::PlanSegment(size_t index) {
  const TopologySegment& segment = topology_.segments[index];
  SegmentPlan plan;
  plan.name = segment.name;
  plan.segment = index;
  std::copy_if(segment.nodes.begin(), segment.nodes.end(), std::back_inserter(plan.peers),
               [&](NodeId node) { return node != node_; });
  plan.names.resize(segment.max_nodes());
  for (NodeId id : segment.nodes) plan.names[id] = topology_.nodes[id].name;
  plan.exchange.run = RunId(topology_, index);
  plan.exchange.node = node_;
  plan.exchange.max_nodes = segment.max_nodes();
  plan.exchange.max_members = static_cast<uint16_t>(segment.nodes.size());
  plan.exchange.codec = segment.codec;
  plan.exchange.position_codec = segment.position_codec;
  plan.exchange.position_share = segment.position_share;
  plan.exchange.damping = segment.damping;
  plan.exchange.heartbeat_ns = segment.heartbeat_ns;
  plan.exchange.peer_timeout_ns = segment.peer_timeout_ns;
  plan.rule = segment.rule;
  if (!segment.default_rule.empty()) {
    notices_.push_back(
        StrCat("segment \"", segment.name, "\" merges by the rule ", segment.default_rule));
  }
  plan.chunk_floats = segment.chunk_floats;
  plan.max_bytes_per_second = segment.max_megabits * kBytesPerMegabit;
  plan.begin = segment.begin;
  plan.end = segment.end;
  plan.busy_poll = segment.busy_poll;
  plan.solver_share = segment.solver_share;
  if (!segment.key_file.empty()) plan.key_file = FindKey(index);

  const TransportDescriptor& transport = *TransportRegistry::Get().Find(segment.transport);
  PlanTransport(transport, &plan);
  if (plan.key_file.empty() && !StaysOnThisMachine(transport, plan)) {
    warnings_.push_back(StrCat(
        "segment \"", segment.name, "\" has no key_file: whoever can send on its network can ",
        "change the weights and end the run; give it one, the same on all nodes, made with ",
        "(umask 077; openssl rand -hex 32 > cluster.key)"));
  }
  return plan;
}

void Planner::PlanTransport(const TransportDescriptor& transport, SegmentPlan* plan) {
  const TopologySegment& segment = topology_.segments[plan->segment];
  plan->transport.transport = segment.transport;
  plan->transport.node = node_;
  auto& options = plan->transport.options;
  options = segment.options;
  options[kMaxFrameBytesOption] = StrCat(segment.max_frame_bytes);
  for (const auto& [key, value] : transport.segment_options) options.emplace(key, value);
  if (transport.has_group) options[kGroupOption] = StrCat(GroupOf(plan->exchange.run));
  if (!transport.addressing.keys.empty()) PlanAddresses(transport, plan);
}

void Planner::PlanAddresses(const TransportDescriptor& transport, SegmentPlan* plan) {
  const TopologySegment& segment = topology_.segments[plan->segment];
  const TransportAddressing& addressing = transport.addressing;
  const TopologyAdapter& own = AdapterOf(node_, segment);
  auto& options = plan->transport.options;
  if (addressing.own_is_interface) {
    const NetworkInterface& interface = FindInterface(own);
    CheckInterface(own, interface, plan->segment);
    options[addressing.own_option] = interface.name;
  } else {
    options[addressing.own_option] = addressing.locate(own, segment.port);
  }
  std::string& peers = options[kPeersOption];
  for (NodeId peer : plan->peers) {
    const TopologyAdapter& adapter = AdapterOf(peer, segment);
    const bool is_known = !adapter.Get(addressing.keys.back().name).empty();
    peers += StrCat(peers.empty() ? "" : ",", peer, "=",
                    is_known ? addressing.locate(adapter, segment.port) : "");
  }
}

// Whether only processes of this machine can send to the segment, as far as the file shows.
bool Planner::StaysOnThisMachine(const TransportDescriptor& transport,
                                 const SegmentPlan& plan) const {
  if (transport.reach == TransportReach::kMachine) return true;
  if (!transport.stays_on_host) return false;
  AdapterFields own = AdapterOf(node_, topology_.segments[plan.segment]);
  const TransportAddressing& addressing = transport.addressing;
  if (addressing.own_is_interface) own.interface = plan.transport.options.at(addressing.own_option);
  return transport.stays_on_host(own);
}

const NetworkInterface& Planner::FindInterface(const TopologyAdapter& own) {
  if (!listed_) interfaces_ = machine_.interfaces();
  listed_ = true;
  const std::string field = AdapterPath(topology_.nodes[node_], node_, own) + ".interface";
  const bool by_mac = LooksLikeMac(own.interface);
  const NetworkInterface* found = nullptr;
  std::vector<std::string> names;
  for (const NetworkInterface& one : interfaces_) {
    names.push_back(by_mac ? one.name + " " + one.mac : one.name);
    if ((by_mac ? one.mac : one.name) != own.interface) continue;
    if (found) {
      throw FieldError(field, own.interface, " is the MAC address of ", found->name, " and of ",
                       one.name, ", expected the name of one of them");
    }
    found = &one;
  }
  if (found) return *found;
  throw FieldError(field, "this machine has no network interface ", own.interface, ", expected ",
                   names.empty() ? "one" : "one of ", NameList(names));
}

void Planner::CheckInterface(const TopologyAdapter& own, const NetworkInterface& interface,
                             size_t index) {
  const TopologySegment& segment = topology_.segments[index];
  if (interface.mac != own.mac) {
    throw FieldError(AdapterPath(topology_.nodes[node_], node_, own) + ".mac", own.mac,
                     " given, but interface ", interface.name, " of this machine has ",
                     interface.mac.empty() ? "none" : interface.mac, "; expected that");
  }
  if (interface.mtu < segment.mtu) {
    throw FieldError(StrCat("segment[", index, "].mtu"), segment.mtu, ", but interface ",
                     interface.name, " of this machine allows ", interface.mtu,
                     ", expected at most that");
  }
  if (interface.mtu > segment.mtu && segment.mtu == kDefaultMtu) {
    notices_.push_back(StrCat("segment \"", segment.name, "\" sends packets of ", segment.mtu,
                              " bytes; interface ", interface.name, " allows ", interface.mtu,
                              ", which the segment's mtu may say if all its nodes do"));
  }
}

void Planner::CheckDevice(const TopologyMemory& memory) {
  try {
    machine_.check_device(memory.type, memory.ordinal);
  } catch (const Error& error) {
    throw FieldError(StrCat("node[", node_, "].memory"), error.what());
  }
}

std::string Planner::FindKey(size_t index) {
  try {
    return machine_.find_key(topology_.segments[index].key_file, topology_.source.file());
  } catch (const Error& error) {
    throw FieldError(StrCat("segment[", index, "].key_file"), error.what());
  }
}

}  // namespace

NodePlan PlanFor(const Topology& topology, NodeId node, const Machine& machine) {
  CHECK_LT(node, topology.nodes.size());
  try {
    return Planner(topology, node, machine).Plan();
  } catch (const FieldError& error) {
    throw Located(topology.source, error);
  }
}

}  // namespace millrace::inline topology
