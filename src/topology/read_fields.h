// Converts the messages of a topology file to the plain values of topology.h. Each error is a
// FieldError with a path from the file's root; the caller adds the file and line.
#ifndef MILLRACE_TOPOLOGY_READ_FIELDS_H_
#define MILLRACE_TOPOLOGY_READ_FIELDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/topology.pb.h"
#include "topology/topology.h"

namespace millrace::inline topology {

// Maximum number of nodes, and of segments.
inline constexpr int kMaxTopologyEntries = 4096;

// "a, b, c": at most 16 names, then the number of the remaining ones.
std::string NameList(const std::vector<std::string>& names);

// Throws FieldError unless `value` is given and is a valid name of a cluster, node, adapter or
// segment (IsIdentifier).
void CheckName(const std::string& field, bool given, const std::string& value);
void CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most);

// Reads the nodes, in the order of the file.
std::vector<TopologyNode> ReadNodes(const topology_file::Topology& file);

// Names of the transports whose peers may change their addresses.
std::vector<std::string> TransportsThatMovePeers();

// Reads the segments. `nodes`: the result of ReadNodes. `is_elastic`: they get their addresses
// later.
std::vector<TopologySegment> ReadSegments(const topology_file::Topology& file,
                                          const std::vector<TopologyNode>& nodes,
                                          const std::vector<std::string>& transports,
                                          bool is_elastic);

// Reads the merge rule of the segment at `path`, with all parameters of the rule.
MergeRuleConfig ReadMergeRule(const std::string& path, const topology_file::Segment& segment);

// Path of the message from which `adapter`, an element of `owner.adapters`, was read.
std::string AdapterPath(const TopologyNode& owner, NodeId node, const TopologyAdapter& adapter);

// Reads keys and values of `options`, a field at `path`. Throws FieldError if one is missing or a
// key is there twice. Calls check(path of the option, key, value) for each.
template <typename Check>
std::map<std::string, std::string> ReadOptions(
    const std::string& path,
    const google::protobuf::RepeatedPtrField<topology_file::Option>& options, Check check) {
  std::map<std::string, std::string> read;
  for (int i = 0; i < options.size(); ++i) {
    const topology_file::Option& option = options[i];
    const std::string field = StrCat(path, "[", i, "]");
    if (option.key().empty()) throw FieldError(field + ".key", "missing, expected a name");
    if (!option.has_value()) throw FieldError(field + ".value", "missing, expected a text");
    check(field, option.key(), option.value());
    if (!read.emplace(option.key(), option.value()).second) {
      throw FieldError(field + ".key", "\"", option.key(), "\" is there twice, expected it once");
    }
  }
  return read;
}

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_READ_FIELDS_H_
