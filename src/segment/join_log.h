// Log lines about nodes that cannot join a segment: those whose invitations or answers get lost,
// and this one if no node has all weights of the run.
#ifndef MILLRACE_SEGMENT_JOIN_LOG_H_
#define MILLRACE_SEGMENT_JOIN_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/protocol/membership.h"

namespace millrace::inline segment {

// Not thread-safe.
class JoinLog {
 public:
  // A node is reported when it has waited for this many peer timeouts. Others that do not answer
  // delay it by one or two.
  static constexpr int64_t kPatienceTimeouts = 3;
  // Minimum time between two lines about a node that waits.
  static constexpr int64_t kRepeatNs = 60'000'000'000;

  // `names` are by node.
  JoinLog(std::string segment, std::vector<std::string> names, int64_t peer_timeout_ns);

  // Lines that are due: one for each node that waits too long, repeated at intervals, and one when
  // it has become a member. Cheap if there are none.
  std::vector<std::string> Update(const Membership& membership, int64_t now_ns);

 private:
  void CheckWeights(const Membership& membership, int64_t now_ns, std::vector<std::string>* lines);

  struct Waiting {
    bool reported = false;
    int64_t reported_ns = 0;  // time of the last line about the node
  };

  const std::string segment_;
  const std::vector<std::string> names_;
  const int64_t patience_ns_;
  std::vector<Waiting> waiting_;  // by node
  int64_t lacking_since_ = -1;    // when this node began to lack weights; -1: it does not
  int64_t lacking_due_ = 0;       // next line about that
  int64_t next_ns_ = INT64_MIN;   // time of the next check
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_JOIN_LOG_H_
