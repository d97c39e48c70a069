// What a topology file says of the control services of its nodes.
#ifndef MILLRACE_CONTROL_CLUSTER_ADDRESSES_H_
#define MILLRACE_CONTROL_CLUSTER_ADDRESSES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/http_address.h"
#include "rendezvous/rendezvous.h"

namespace millrace::inline control {

// Each node's name and the address of its control service; "": it has none.
using NodeAddresses = std::vector<std::pair<std::string, std::string>>;

struct ClusterAddresses {
  std::string cluster = "";   // its name
  std::string node = "";      // this node's
  std::string key_file = "";  // of the first segment that has one; "": none
  NodeAddresses nodes = {};   // in the order of the file

  // "" if that node has none. Throws Error if there is no such node.
  const std::string& AddressOf(const std::string& name) const;
};

// `node`: this node's name; "": chosen by rank, or none if `needs_node` is false. Throws Error.
ClusterAddresses ReadClusterAddresses(const std::string& topology, const std::string& node,
                                      bool needs_node);

// Whether the topology gives this node a control service; false without a topology. Throws Error.
bool HasControlService(const std::string& topology, const std::string& node);

// The registered nodes of an elastic run. Blocks. Throws Error if the registry does not answer.
NodeAddresses ReadElasticAddresses(const RendezvousOptions& options);

// Parses `text`. Throws Error that says what is expected.
HttpAddress ExpectHttpAddress(const std::string& text);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_CLUSTER_ADDRESSES_H_
