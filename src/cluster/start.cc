#include "cluster/start.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "segment/auth/key_file.h"
#include "transport/registry.h"

namespace millrace {
namespace {

// How many segments lie between node 0 and each node, over those segments that share
// a part of the weights with `of`.
std::vector<int> DistancesFromTop(const Topology& topology, const TopologySegment& of) {
  constexpr int kFar = std::numeric_limits<int>::max();
  std::vector<int> distances(topology.nodes.size(), kFar);
  distances[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const TopologySegment& segment : topology.segments) {
      if (!Overlap(segment, of)) continue;
      int nearest = kFar;
      for (NodeId node : segment.nodes) nearest = std::min(nearest, distances[node]);
      if (nearest == kFar) continue;
      for (NodeId node : segment.nodes) {
        if (distances[node] <= nearest + 1) continue;
        distances[node] = nearest + 1;
        changed = true;
      }
    }
  }
  return distances;
}

// Larger each time that this node is started, as long as its clock is right; where it is not,
// the others say so, and the node takes a later one. Quarters of a second since 2020, which
// last until 2053; 1 where the clock shows an earlier time.
uint32_t NewIncarnation() {
  constexpr int64_t k2020 = 1'577'836'800;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t quarters = (int64_t{now.tv_sec} - k2020) * 4 + now.tv_nsec / 250'000'000;
  return static_cast<uint32_t>(std::clamp<int64_t>(quarters, 1, kLatestIncarnation));
}

// Whether another segment of the node carries some of the same weights.
bool SharesWeights(const NodePlan& node, const SegmentPlan& segment) {
  return std::ranges::any_of(node.segments, [&](const SegmentPlan& other) {
    return &other != &segment && Overlap(other, segment);
  });
}

// `top`: the node of the segment that is nearest to node 0.
std::unique_ptr<NetSegment> MakeSegment(const Topology& topology, const NodePlan& node,
                                        const SegmentPlan& plan, NodeId top, uint32_t incarnation,
                                        const ClusterReplica& replica,
                                        const std::shared_ptr<GossipStore>& gossip) {
  NetSegmentConfig config;
  config.name = plan.name;
  config.exchange = plan.exchange;
  config.exchange.incarnation = incarnation;
  if (!CanBootstrap(top, plan.exchange.node)) config.exchange.bootstrap_after_ns = -1;
  config.exchange.sole_bootstrapper = top != 0 && top == plan.exchange.node;
  config.exchange.bootstraps_when_allowed = config.exchange.sole_bootstrapper;
  // Else what one segment's end drops would be brought back by the other's, for ever.
  config.exchange.passes_all_on = top == node.node && SharesWeights(node, plan);
  config.rule = plan.rule;
  config.leader = top;
  config.chunk_floats = plan.chunk_floats;
  config.max_bytes_per_second = plan.max_bytes_per_second;
  // Only these join the nodes as a tree; around a ring gossip messages would be sent twice.
  if (plan.begin == 0) config.gossip = gossip;
  HandshakeConfig& own = config.gate.handshake;
  own.names = plan.names;
  own.settings.parameters = static_cast<uint64_t>(replica.size);
  own.settings.layout_digest = replica.layout_digest;
  own.settings.topology_digest = topology.digest;
  if (!plan.key_file.empty()) {
    config.gate.key = std::make_shared<const SecretKey>(ReadKeyFile(plan.key_file));
  }
  const WeightRange range = RangeOf(topology.segments[plan.segment], replica.size);
  if (range.size() == 0) {
    throw Error("segment ", plan.name, ": its range holds none of the ", replica.size, " weights");
  }
  return std::make_unique<NetSegment>(config, TransportRegistry::Get().Create(plan.transport),
                                      replica.weights + range.begin, range.size(), replica.home);
}

}  // namespace

NodeId GatewayOf(const Topology& topology, size_t segment) {
  const TopologySegment& of = topology.segments[segment];
  const std::vector<int> distances = DistancesFromTop(topology, of);
  const auto nearer = [&](NodeId a, NodeId b) { return distances[a] < distances[b]; };
  return *std::min_element(of.nodes.begin(), of.nodes.end(), nearer);
}

bool CanBootstrap(NodeId top, NodeId node) { return top == 0 || top == node; }

std::unique_ptr<Cluster> StartCluster(const Topology& topology, const NodePlan& plan,
                                      const ClusterReplica& replica) {
  const uint32_t incarnation = NewIncarnation();
  const auto gossip = std::make_shared<GossipStore>(topology.nodes.size(), plan.node, incarnation);
  std::vector<ClusterSegment> segments;
  const auto count = static_cast<double>(plan.segments.size());
  for (const SegmentPlan& segment : plan.segments) {
    const NodeId top = GatewayOf(topology, segment.segment);
    segments.push_back({MakeSegment(topology, plan, segment, top, incarnation, replica, gossip),
                        {.busy_poll = segment.busy_poll,
                         .pace = {.share = segment.solver_share / count},
                         .solvers = segment.solver_share < 1 ? replica.solvers : nullptr},
                        segment.begin == 0,
                        plan.node != 0 && top == plan.node,
                        RangeOf(topology.segments[segment.segment], replica.size).begin});
  }
  return std::make_unique<Cluster>(std::move(segments), replica.start, replica.iterations,
                                   replica.clock, replica.sink, gossip);
}

}  // namespace millrace
