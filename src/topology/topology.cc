#include "topology/topology.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/files/file.h"
#include "base/fnv1a.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "millrace/transport_registry.h"
#include "proto/parse.h"
#include "proto/topology.pb.h"
#include "topology/reachability.h"
#include "topology/read_fields.h"

namespace millrace::inline topology {

const TopologyAdapter* TopologyNode::FindAdapter(const std::string& adapter_name) const {
  const auto found =
      std::find_if(adapters.begin(), adapters.end(),
                   [&](const TopologyAdapter& adapter) { return adapter.name == adapter_name; });
  return found == adapters.end() ? nullptr : &*found;
}

bool TopologySegment::Joins(NodeId node) const {
  return std::binary_search(nodes.begin(), nodes.end(), node);
}

std::vector<std::string> TransportsForTopologies() {
  std::vector<std::string> names;
  for (const TransportDescriptor* transport : TransportRegistry::Get().Descriptors()) {
    if (transport->InTopologies()) names.push_back(transport->name);
  }
  return names;
}

std::vector<std::string> TransportsThatMovePeers() {
  std::vector<std::string> names = TransportsForTopologies();
  std::erase_if(names, [](const std::string& name) {
    return !TransportRegistry::Get().Find(name)->moves_peers;
  });
  return names;
}

namespace {

// Whether another segment exchanges the same weights on a node of `segment`.
bool SharesWeights(const Topology& topology, const TopologySegment& segment) {
  return std::any_of(topology.segments.begin(), topology.segments.end(),
                     [&](const TopologySegment& other) {
                       return &other != &segment && Overlap(other, segment) &&
                              std::any_of(segment.nodes.begin(), segment.nodes.end(),
                                          [&](NodeId node) { return other.Joins(node); });
                     });
}

bool ReadScaling(const topology_file::Topology& file) {
  const std::optional<bool> scales = ScalesRate(file.scaling());
  if (!scales) throw FieldError("scaling", "\"", file.scaling(), "\" given, expected ", kScalings);
  return *scales;
}

// Whether all segments leave the merge rule to the program, and join the same nodes.
bool MayScale(const Topology& topology) {
  return std::ranges::all_of(topology.segments, [&](const TopologySegment& segment) {
    return !segment.names_rule && !segment.names_damping &&
           segment.nodes == topology.segments[0].nodes && !SharesWeights(topology, segment);
  });
}

// Sets the rule of segments that name none, and damping and codecs of those that do not name them.
void ChooseMergeRules(Topology* topology, bool may_scale) {
  const bool scales = may_scale && MayScale(*topology);
  for (TopologySegment& segment : topology->segments) {
    if (segment.names_rule) {
      if (!segment.names_damping) segment.damping = IsDampedByDefault(segment.rule.name);
      continue;
    }
    DefaultMergeRule chosen = DefaultMergeRuleFor(static_cast<int>(segment.nodes.size()),
                                                  !SharesWeights(*topology, segment), scales);
    topology->scales_rate = chosen.scales_rate;
    segment.rule = std::move(chosen.rule);
    if (!segment.names_damping) segment.damping = chosen.damping;
    if (!segment.names_codec) segment.codec = {.codec = chosen.codec};
    if (!segment.names_position_codec) segment.position_codec = chosen.position_codec;
    segment.default_rule = std::move(chosen.reason);
  }
}

// Refuses merge rules that another segment of the same weights on the same node would answer for
// ever. What a rule leaves at its fixed point is dropped at the end of a run; the other segment
// would take this for progress and bring it back. What a rule with state, such as momentum, adds to
// a diff is progress to the other segment; where that has such a rule too, each adds to what the
// other adds.
void CheckMergeRules(const Topology& topology) {
  const auto descriptor = [](const TopologySegment& segment) -> const MergeRuleDescriptor& {
    return MergeRuleRegistry::Get().Check(segment.rule);
  };
  for (size_t i = 0; i < topology.segments.size(); ++i) {
    const TopologySegment& segment = topology.segments[i];
    const MergeRuleDescriptor& rule = descriptor(segment);
    const bool rests = rule.RestDistance(segment.rule.parameters) > 0;
    for (const TopologySegment& other : topology.segments) {
      const bool shares = MergeRuleRegistry::Get().MergesOwn(segment.rule.name);
      const bool echoes = rule.state_floats > 0 && descriptor(other).state_floats > 0;
      if (&other == &segment || !Overlap(other, segment)) continue;
      if (!rests && !echoes && !shares) continue;
      const auto joint = std::find_if(segment.nodes.begin(), segment.nodes.end(),
                                      [&](NodeId node) { return other.Joins(node); });
      if (joint == segment.nodes.end()) continue;
      const std::string with = StrCat("segment \"", other.name, "\"");
      throw FieldError(
          StrCat("segment[", i, "].merge_rule"), "\"", segment.rule.name, "\" given, but node \"",
          topology.nodes[*joint].name, "\" shares these weights with ", with, "; expected a rule ",
          rests    ? "that leaves no progress unsent"
          : shares ? "that merges the progress of its own node in full"
                   : StrCat("without state, because that of ", with, " has state too"));
    }
  }
}

// Whether changes of the weights that `from` and `to` both have reach `to` from `from`: over nodes
// that join two segments, and segments between them.
bool IsReached(const Topology& topology, size_t from, size_t to) {
  const std::vector<TopologySegment>& segments = topology.segments;
  if (!Overlap(segments[from], segments[to])) return false;
  const struct {
    double begin, end;
  } common = {std::max(segments[from].begin, segments[to].begin),
              std::min(segments[from].end, segments[to].end)};
  std::vector<size_t> reached = {from};
  for (size_t next = 0; next < reached.size(); ++next) {
    const TopologySegment& segment = segments[reached[next]];
    for (size_t i = 0; i < segments.size(); ++i) {
      const bool joint =
          std::ranges::any_of(segment.nodes, [&](NodeId node) { return segments[i].Joins(node); });
      if (joint && Overlap(segments[i], common) && std::ranges::count(reached, i) == 0) {
        reached.push_back(i);
      }
    }
  }
  return std::ranges::count(reached, to) > 0;
}

// Refuses rounded positions in two segments between which changes of weights travel. What one
// rounds is progress to the other, whose rounding is progress to the first: they would never rest.
void CheckPositionCodecs(const Topology& topology) {
  for (size_t i = 0; i < topology.segments.size(); ++i) {
    const TopologySegment& segment = topology.segments[i];
    if (segment.position_codec == Codec::kFloat32) continue;
    for (size_t other = 0; other < i; ++other) {
      if (topology.segments[other].position_codec == Codec::kFloat32) continue;
      if (!IsReached(topology, i, other)) continue;
      throw FieldError(StrCat("segment[", i, "].position_codec"), "\"",
                       PositionCodecName(segment.position_codec), "\" given, but segment \"",
                       topology.segments[other].name, "\" rounds the same weights, and each would ",
                       "take the other's rounding for progress; expected float32 in one of them");
    }
  }
}

// Reads the rest of `topology`, which has its source.
void ReadTopology(const topology_file::Topology& file, const std::vector<std::string>& transports,
                  bool scales, bool is_elastic, Topology* read) {
  Topology& topology = *read;
  try {
    CheckName("name", file.has_name(), file.name());
    topology.name = file.name();
    topology.shard_data = file.shard_data();
    topology.distributed_evaluation = file.distributed_evaluation();
    topology.nodes = ReadNodes(file);
    topology.segments = ReadSegments(file, topology.nodes, transports, is_elastic);
    CheckCoverage(topology);
    ChooseMergeRules(&topology, ReadScaling(file) && scales);
    CheckMergeRules(topology);
    CheckPositionCodecs(topology);
    topology.digest = Fnv1a(file.SerializeAsString());
  } catch (const FieldError& error) {
    throw Located(topology.source, error);
  }
}

}  // namespace

Topology ParseTopology(const std::string& text, const std::string& name,
                       const std::vector<std::string>& transports, bool scales) {
  topology_file::Topology file;
  Topology topology;
  ParseText(text, name, &file, &topology.source);
  ReadTopology(file, transports, scales, false, &topology);
  return topology;
}

Topology ParseElasticTopology(const std::string& text, const std::string& name,
                              const std::string& cluster, int max_nodes,
                              const std::vector<std::string>& transports, bool scales) {
  topology_file::Topology file;
  Topology topology;
  ParseText(text, name, &file, &topology.source);
  if (file.node_size() > 0) {
    throw Located(topology.source, FieldError("node[0]", "given, but the nodes come from the ",
                                              "registry of --rendezvous; expected no nodes"));
  }
  if (!file.has_name()) file.set_name(cluster);
  for (int i = 0; i < max_nodes; ++i) file.add_node()->set_name(StrCat("n", i));
  const std::vector<std::string> moving = TransportsThatMovePeers();
  if (file.segment_size() == 0 && !moving.empty()) {
    file.add_segment()->set_name("net");
    file.mutable_segment(0)->set_transport(moving[0]);
  }
  ReadTopology(file, transports, scales, true, &topology);
  return topology;
}

Topology LoadTopology(const std::string& path, const std::vector<std::string>& transports,
                      bool scales) {
  return ParseTopology(ReadFile(path), path, transports, scales);
}

uint64_t RunId(const Topology& topology, size_t segment) {
  return Fnv1a(topology.name + '\0' + topology.segments[segment].name);
}

WeightRange RangeOf(const TopologySegment& segment, int64_t weights) {
  return {std::llround(segment.begin * static_cast<double>(weights)),
          std::llround(segment.end * static_cast<double>(weights))};
}

}  // namespace millrace::inline topology
