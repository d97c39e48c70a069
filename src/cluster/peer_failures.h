// Collects the errors with which other nodes have ended (RunEnd.failure), for the log and for this
// node's exit status.
#ifndef MILLRACE_CLUSTER_PEER_FAILURES_H_
#define MILLRACE_CLUSTER_PEER_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/cluster_peers.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// Maximum length of a published error, in bytes.
inline constexpr size_t kMaxFailureBytes = 200;
// The first line of `error`, truncated to kMaxFailureBytes.
std::string FailureText(std::string_view error);

// Not thread-safe.
class PeerFailures {
 public:
  // `peers` outlives this object. `names`: names of the cluster's nodes, by id.
  PeerFailures(const ClusterPeers* peers, std::vector<std::string> names);

  // Errors published since the last call, one line each: "node b has failed: ...". Each incarnation
  // of a node is listed once, whether it has published its error or the leader has. The text
  // consists of printable characters only, whatever a node sends.
  std::vector<std::string> TakeNew();
  // One line that names the nodes that ended with a non-finite loss; "" if there are none. A node
  // is dropped once a later incarnation of it has completed the run's schedule without an error. As
  // of the last TakeNew.
  std::string NotFinite() const;
  // Ids and incarnations of these nodes.
  std::vector<std::pair<NodeId, uint32_t>> AllNotFinite() const;

 private:
  // How the newest incarnation that has failed or completed a run has ended.
  struct Ending {
    uint32_t incarnation = 0;
    bool failed = false, not_finite = false;
  };

  // Whether a failure of this incarnation is news: neither it nor an end of a later one is known.
  bool IsNewFailure(NodeId node, uint32_t incarnation) const;

  const ClusterPeers& peers_;
  const std::vector<std::string> names_;
  std::map<NodeId, Ending> endings_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_PEER_FAILURES_H_
