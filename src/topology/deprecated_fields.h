// Former names of fields of a topology file, which are still read.
#ifndef MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_
#define MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_

#include <string>
#include <vector>

#include "proto/topology.pb.h"

namespace millrace {

struct DeprecatedField {
  std::string path;  // as given: "segment[0].max_rate"
  std::string name;  // of the field to use: "max_mbps"
};

// Moves the values of deprecated fields to the fields that replace them, and returns what was
// moved, in the order of the file's messages. Throws FieldError if a message gives both names.
std::vector<DeprecatedField> ReplaceDeprecatedFields(topology::Topology* file);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_DEPRECATED_FIELDS_H_
