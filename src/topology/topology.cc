#include "topology/topology.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/fnv1a.h"
#include "proto/parse.h"
#include "proto/topology.pb.h"
#include "topology/deprecated_fields.h"
#include "topology/reachability.h"
#include "topology/read_fields.h"
#include "transport/registry.h"

namespace millrace {

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
    if (transport->reach == TransportReach::kNetwork) names.push_back(transport->name);
  }
  return names;
}

Topology ParseTopology(const std::string& text, const std::string& name,
                       const std::vector<std::string>& transports) {
  topology::Topology file;
  Topology topology;
  ParseText(text, name, &file, &topology.source);
  try {
    for (const DeprecatedField& field : ReplaceDeprecatedFields(&file)) {
      topology.warnings.push_back(StrCat(topology.source.Where(field.path), ": ", field.path,
                                         " is deprecated, use ", field.name));
    }
    CheckName("name", file.has_name(), file.name());
    topology.name = file.name();
    topology.shard_data = file.shard_data();
    topology.distributed_evaluation = file.distributed_evaluation();
    topology.nodes = ReadNodes(file);
    topology.segments = ReadSegments(file, topology.nodes, transports);
    CheckCoverage(topology);
    topology.digest = Fnv1a(file.SerializeAsString());
  } catch (const FieldError& error) {
    throw Located(topology.source, error);
  }
  return topology;
}

Topology LoadTopology(const std::string& path, const std::vector<std::string>& transports) {
  Topology topology = ParseTopology(ReadFile(path), path, transports);
  for (const std::string& warning : topology.warnings) LOG(WARNING) << warning;
  return topology;
}

uint64_t RunId(const Topology& topology, size_t segment) {
  return Fnv1a(topology.name + '\0' + topology.segments[segment].name);
}

WeightRange RangeOf(const TopologySegment& segment, int64_t weights) {
  return {std::llround(segment.begin * static_cast<double>(weights)),
          std::llround(segment.end * static_cast<double>(weights))};
}

}  // namespace millrace
