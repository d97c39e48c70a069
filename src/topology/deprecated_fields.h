// Support for the deprecated field names of topology files.
#ifndef MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_
#define MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_

#include <string>
#include <vector>

#include "proto/topology.pb.h"

namespace millrace::inline topology {

struct DeprecatedField {
  std::string path;  // in the file: "segment[0].max_rate"
  std::string name;  // of the replacement: "max_mbps"
};

// Moves the values of deprecated fields to the fields that replace them. Returns the moved fields,
// in the order of the file's messages. Throws FieldError if a message contains both names.
std::vector<DeprecatedField> ReplaceDeprecatedFields(topology_file::Topology* file);

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_
