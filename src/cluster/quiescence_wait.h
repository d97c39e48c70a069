// The wait at the end of a run until all nodes have the same weights. Pure logic on a
// TerminationDetector and an injected clock; the caller polls it.
#ifndef MILLRACE_CLUSTER_QUIESCENCE_WAIT_H_
#define MILLRACE_CLUSTER_QUIESCENCE_WAIT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/termination_detector.h"

namespace millrace::inline cluster {

// How a node is named in log lines and errors.
struct PeerLabel {
  std::string node;
  std::string segment;  // over which this node reaches it; "": over other nodes
};

// Not thread-safe.
class QuiescenceWait {
 public:
  enum class Result {
    kWaiting,
    kQuiescent,  // all reachable nodes have the weights that `freeze` took
    kDiverged,   // a timeout has passed; failure() names the other nodes
  };

  // `labels`: by id. `freeze`: takes the weights with which this node ends, and returns their
  // checksum (TerminationDetector::Checksum). All pointers outlive this object.
  QuiescenceWait(TerminationDetector* termination, const ClusterPeers* peers,
                 std::vector<PeerLabel> labels, std::function<uint32_t()> freeze,
                 const Clock* clock);

  // Call every few ms, after this node's solvers have ended, until the result is not kWaiting. Logs
  // long waits.
  Result Step();
  // Checksum of the weights that were frozen last.
  uint32_t checksum() const { return checksum_; }
  // After kDiverged: one line that names the nodes which have other weights or have not ended, and
  // the likely cause if it is known; "" otherwise.
  const std::string& failure() const { return failure_; }

 private:
  void LogTraining();
  void LogInFlight();
  std::string DivergedText() const;
  std::string LikelyCause() const;
  // "b, c", or "b on segment lan, c on segment lan".
  std::string NamesOf(const std::vector<NodeId>& nodes, bool with_segments = false) const;

  TerminationDetector& termination_;
  const ClusterPeers& peers_;
  const std::vector<PeerLabel> labels_;
  const std::function<uint32_t()> freeze_;
  const Clock& clock_;
  const int64_t began_ns_;
  uint32_t checksum_ = 0;
  std::string failure_;
  std::vector<NodeId> training_;   // as last logged
  int64_t log_in_flight_ns_ = -1;  // next time to log that weights still change; -1: not yet set
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_QUIESCENCE_WAIT_H_
