// Log lines about broken links between members (exchange/protocol/link_monitor.h).
#ifndef MILLRACE_SEGMENT_LINK_LOG_H_
#define MILLRACE_SEGMENT_LINK_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/protocol/link_monitor.h"
#include "exchange/protocol/membership.h"

namespace millrace::inline segment {

// Not thread-safe.
class LinkLog {
 public:
  // A broken link counts as restored when no node has reported it for this long: around a change of
  // view, reports come and go within milliseconds.
  static constexpr int64_t kMendedNs = 1'000'000'000;

  // `names` are by node. `self` is this node; its largest frames have `frame_bytes`.
  LinkLog(std::string segment, std::vector<std::string> names, uint16_t self, size_t frame_bytes);

  // Time for which a node that is heard has to report that it receives nothing from this one, to
  // be named though it is no member. A node that only stood still reports that for a moment.
  static constexpr int64_t kDeafNs = 1'000'000'000;

  // Changes since the last call: a line for each link that broke or was restored, and for each node
  // that was excluded or, though its frames arrive, receives none of this node. Cheap if there are
  // none.
  std::vector<std::string> Update(const LinkMonitor& links, int64_t now_ns);

 private:
  void FindDeaf(const LinkMonitor& links, int64_t now_ns);
  void AddBroken(const LinkMonitor& links, const BrokenLink& link, int64_t now_ns,
                 std::vector<std::string>* lines);
  std::string BrokenLine(const LinkMonitor& links, const BrokenLink& link, int64_t now_ns) const;

  const std::string segment_;
  const std::vector<std::string> names_;
  const uint16_t self_;
  const size_t frame_bytes_;
  struct Reported {
    BrokenLink link;
    int64_t reported_ns;  // time of the last report
  };
  std::vector<Reported> broken_;        // logged and not restored yet
  std::vector<uint16_t> left_out_;      // logged, with a link that is still broken
  std::vector<int64_t> deaf_since_ns_;  // by node: since when kDeafNs counts; -1: not at all
  std::vector<BrokenLink> deaf_;        // of nodes for which kDeafNs has passed
  int64_t next_look_ns_ = INT64_MIN;    // time of the next FindDeaf
};

// Log lines about nodes that cannot join a segment: those whose invitations or answers get lost,
// and this one if no node has all weights of the run.
//
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

#endif  // MILLRACE_SEGMENT_LINK_LOG_H_
