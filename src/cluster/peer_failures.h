// Collects the errors with which other nodes have ended (RunEnd.failure), for the log and for this
// node's exit status.
#ifndef MILLRACE_CLUSTER_PEER_FAILURES_H_
#define MILLRACE_CLUSTER_PEER_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// Maximum length of a published error, in bytes.
inline constexpr size_t kMostFailureBytes = 200;
// The first line of `error`, truncated to kMostFailureBytes.
std::string FailureText(std::string_view error);

// Not thread-safe.
class PeerFailures {
 public:
  // `read`: returns the newest RunEnd message of each node. `names`: names of the cluster's nodes,
  // by id.
  PeerFailures(NodeId self, std::vector<std::string> names,
               std::function<std::vector<GossipMessage>()> read);

  // Errors published since the last call, one line each: "node b has failed: ...". Each incarnation
  // of a node is listed once. The text consists of printable characters only, whatever a node
  // sends.
  std::vector<std::string> Look();
  // One line that names the nodes that ended with a non-finite loss; "" if there are none. A node
  // is dropped once a later incarnation of it has reached the end of a run without an error. As of
  // the last Look.
  std::string NotFinite() const;

 private:
  struct Failure {
    uint32_t incarnation = 0;
    bool not_finite = false;
  };

  std::string NameOf(NodeId node) const;

  const NodeId self_;
  const std::vector<std::string> names_;
  const std::function<std::vector<GossipMessage>()> read_;
  std::map<NodeId, Failure> failures_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_PEER_FAILURES_H_
