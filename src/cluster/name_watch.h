// Finds nodes whose host name has another IP address than when this node started, as of a pod of
// Kubernetes that was replaced. Pure logic on injected lookups.
#ifndef MILLRACE_CLUSTER_NAME_WATCH_H_
#define MILLRACE_CLUSTER_NAME_WATCH_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/node_id.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::inline cluster {

// A peer that the topology locates by a host name.
struct NamedPeer {
  size_t segment = 0;  // index in NodePlan::segments
  NodeId node = 0;
  std::string name;          // "host:port"
  std::string address = "";  // "IP:port"; "": not known
};
// The named peers on segments whose transports can change addresses.
std::vector<NamedPeer> NamedPeers(const Topology& topology, const NodePlan& plan);

// Not thread-safe.
class NameWatch {
 public:
  // Returns the address of a name; none if it is not known now. May block.
  using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

  NameWatch(std::vector<NamedPeer> peers, Lookup lookup)
      : peers_(std::move(peers)), lookup_(std::move(lookup)) {}

  // Looks up the names of the peers that `is_silent` holds for. Returns those whose address has
  // changed; at the first look, which only learns the addresses of all peers, none.
  std::vector<NamedPeer> Look(const std::function<bool(const NamedPeer& peer)>& is_silent);

 private:
  std::vector<NamedPeer> peers_;
  const Lookup lookup_;
  bool has_looked_ = false;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_NAME_WATCH_H_
