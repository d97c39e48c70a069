// Reading the messages of a topology file into the plain values of topology.h. Every
// mistake is a FieldError whose field is a path from the file's root; the caller adds
// the place.
#ifndef MILLRACE_TOPOLOGY_READ_FIELDS_H_
#define MILLRACE_TOPOLOGY_READ_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/topology.pb.h"
#include "topology/topology.h"

namespace millrace {

// Of nodes, and of segments.
inline constexpr int kMostTopologyEntries = 4096;

// "a, b, c", or the first sixteen and how many more there are.
std::string NameList(const std::vector<std::string>& names);

// Throws unless `value` is given, and a name (network_names.h).
void CheckName(const std::string& field, bool given, const std::string& value);
void CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most);

// The nodes, in the order of the file.
std::vector<TopologyNode> ReadNodes(const topology::Topology& file);

// The segments; `nodes` as ReadNodes gave them.
std::vector<TopologySegment> ReadSegments(const topology::Topology& file,
                                          const std::vector<TopologyNode>& nodes,
                                          const std::vector<std::string>& transports);

// The path of the message that `adapter`, one of `owner.adapters`, was read from.
std::string AdapterPath(const TopologyNode& owner, NodeId node, const TopologyAdapter& adapter);

// Whether plan.h makes that option of a transport from other fields, so that a segment's
// `option` may not.
bool IsReservedOption(const std::string& transport, const std::string& key);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_READ_FIELDS_H_
