// Converts the messages of a topology file to the plain values of topology.h. Each error is a
// FieldError with a path from the file's root; the caller adds the file and line.
#ifndef MILLRACE_TOPOLOGY_READ_FIELDS_H_
#define MILLRACE_TOPOLOGY_READ_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/topology.pb.h"
#include "topology/topology.h"

namespace millrace {

// Maximum number of nodes, and of segments.
inline constexpr int kMostTopologyEntries = 4096;

// "a, b, c": at most 16 names, then the number of the remaining ones.
std::string NameList(const std::vector<std::string>& names);

// Throws FieldError unless `value` is given and is a valid name (network_names.h).
void CheckName(const std::string& field, bool given, const std::string& value);
void CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most);

// Reads the nodes, in the order of the file.
std::vector<TopologyNode> ReadNodes(const topology::Topology& file);

// Reads the segments. `nodes`: the result of ReadNodes.
std::vector<TopologySegment> ReadSegments(const topology::Topology& file,
                                          const std::vector<TopologyNode>& nodes,
                                          const std::vector<std::string>& transports);

// Path of the message from which `adapter`, an element of `owner.adapters`, was read.
std::string AdapterPath(const TopologyNode& owner, NodeId node, const TopologyAdapter& adapter);

// Whether plan.h derives this transport option from other fields, so that a segment's `option` must
// not set it.
bool IsReservedOption(const std::string& transport, const std::string& key);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_READ_FIELDS_H_
