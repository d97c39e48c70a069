// Which other nodes of a cluster have ended with an error, by what they told of it
// (RunEnd.failure), for the log and for the exit status of those that go on.
#ifndef MILLRACE_CLUSTER_PEER_FAILURES_H_
#define MILLRACE_CLUSTER_PEER_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"

namespace millrace {

// A message holds so many bytes at most.
inline constexpr size_t kMostFailureBytes = 200;
// The first line of `error`, cut to that.
std::string FailureText(std::string_view error);

// Not thread-safe.
class PeerFailures {
 public:
  // `read`: the newest RunEnd of each node. `names`: of the cluster's nodes, by id.
  PeerFailures(NodeId self, std::vector<std::string> names,
               std::function<std::vector<GossipMessage>()> read);

  // What others have told since the last call: "node b has failed: ...", once for each
  // incarnation of a node. In printable characters, whatever a node sends.
  std::vector<std::string> Look();
  // One line that names the nodes which ended with a loss that is not finite, and have not come
  // to the end of a run in a later incarnation; "" if there are none. As of the last Look.
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

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_PEER_FAILURES_H_
