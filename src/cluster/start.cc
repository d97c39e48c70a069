#include "cluster/start.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "base/fnv1a.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "millrace/transport_registry.h"
#include "segment/auth/key_file.h"

namespace millrace::inline cluster {
namespace {

// Hops from node 0 to each node, over the segments that overlap `of`.
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

// A number that is larger at each start of this node while its clock is right: quarters of a second
// since 2020-01-01 UTC, sufficient until 2053; 1 for an earlier clock. If the clock is wrong, a
// peer reports its known incarnation and this node takes a later one
// (segment/handshake/handshake.h).
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

// `top`: GatewayOf() of the segment.
std::unique_ptr<NetSegment> MakeSegment(const Topology& topology, const NodePlan& node,
                                        const SegmentPlan& plan, NodeId top, uint32_t incarnation,
                                        const ClusterReplica& replica,
                                        const std::shared_ptr<GossipStore>& gossip,
                                        MetricsRegistry* registry) {
  NetSegmentConfig config;
  config.registry = registry;
  config.name = plan.name;
  config.exchange = plan.exchange;
  config.exchange.incarnation = incarnation;
  config.exchange.examples = replica.examples;
  if (!CanBootstrap(top, plan.exchange.node)) config.exchange.bootstrap_after_ns = -1;
  config.exchange.sole_bootstrapper = top != 0 && top == plan.exchange.node;
  config.exchange.bootstraps_when_allowed = config.exchange.sole_bootstrapper;
  if (node.is_elastic) {
    config.exchange.sole_bootstrapper = config.exchange.bootstraps_when_allowed = true;
  }
  // Otherwise the remainder that this segment drops would return through the overlapping segment,
  // endlessly.
  config.exchange.passes_all_on = top == node.node && SharesWeights(node, plan);
  config.rule = plan.rule;
  config.leader = top;
  config.chunk_floats = plan.chunk_floats;
  config.max_bytes_per_second = plan.max_bytes_per_second;
  // Only the segments that carry weight 0 join the nodes as a tree. On a ring, gossip messages
  // would be sent twice.
  if (plan.begin == 0) config.gossip = gossip;
  HandshakeConfig& own = config.filter.handshake;
  own.names = plan.names;
  own.settings.parameters = static_cast<uint64_t>(replica.size);
  own.settings.layout_digest = Folded(replica.layout_digest);
  own.settings.max_iter = replica.max_iter;
  own.settings.topology_digest = topology.digest;
  if (!plan.key_file.empty()) {
    config.filter.key = std::make_shared<const SecretKey>(ReadKeyFile(plan.key_file));
  }
  const WeightRange range = RangeOf(topology.segments[plan.segment], replica.size);
  if (range.size() == 0) {
    throw Error("segment ", plan.name, ": its range holds none of the ", replica.size, " weights");
  }
  try {
    return std::make_unique<NetSegment>(config, TransportRegistry::Get().Create(plan.transport),
                                        replica.weights + range.begin, range.size(),
                                        replica.replica_device);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("segment ", plan.name, ": ", error.what());
  }
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
  if (plan.segments.empty()) {
    throw Located(topology.source,
                  FieldError("segment", "missing, expected at least one: a node alone has ",
                             "nothing to exchange, and needs no topology"));
  }
  const uint32_t incarnation = NewIncarnation();
  const auto gossip = std::make_shared<GossipStore>(topology.nodes.size(), plan.node, incarnation);
  const auto registry = PartOrNew(replica.registry);
  std::vector<ClusterSegment> segments;
  const auto count = static_cast<double>(plan.segments.size());
  for (const SegmentPlan& segment : plan.segments) {
    const NodeId top = GatewayOf(topology, segment.segment);
    segments.push_back(
        {MakeSegment(topology, plan, segment, top, incarnation, replica, gossip, registry.get()),
         {.busy_poll = segment.busy_poll,
          .pace = {.share = segment.solver_share / count,
                   .stale_own_iterations = plan.scales_rate ? kMaxAveragedIterations : 0},
          .solvers = segment.solver_share < 1 ? replica.solvers : nullptr},
         segment.begin == 0,
         plan.node != 0 && top == plan.node,
         RangeOf(topology.segments[segment.segment], replica.size).begin});
  }
  return std::make_unique<Cluster>(std::move(segments), replica.start, replica.iterations,
                                   replica.clock, replica.sink, gossip, registry);
}

}  // namespace millrace::inline cluster
