#include "segment/join_log.h"

#include <utility>

#include "base/error.h"
#include "base/text/names.h"

namespace millrace::inline segment {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
// Checks in the time after which a node is reported.
constexpr int64_t kChecks = 16;

}  // namespace

JoinLog::JoinLog(std::string segment, std::vector<std::string> names, int64_t peer_timeout_ns)
    : segment_(std::move(segment)),
      names_(std::move(names)),
      patience_ns_(kPatienceTimeouts * peer_timeout_ns),
      waiting_(names_.size()) {}

void JoinLog::CheckWeights(const Membership& membership, int64_t now_ns,
                           std::vector<std::string>* lines) {
  if (!membership.LacksWeights()) {
    lacking_since_ = -1;
    return;
  }
  if (lacking_since_ < 0) {
    lacking_since_ = now_ns;
    lacking_due_ = now_ns + patience_ns_;
  }
  if (now_ns < lacking_due_) return;
  lacking_due_ = now_ns + kRepeatNs;
  lines->push_back(StrCat("Segment ", segment_, ": no node that has all weights of the run has ",
                          "responded for ", (now_ns - lacking_since_) / kNsPerSecond,
                          " s; this node does not have them and waits for one: start ",
                          "such a node again, or all nodes, to begin anew"));
}

std::vector<std::string> JoinLog::Update(const Membership& membership, int64_t now_ns) {
  std::vector<std::string> lines;
  if (now_ns < next_ns_) return lines;
  next_ns_ = now_ns + patience_ns_ / kChecks;
  CheckWeights(membership, now_ns, &lines);
  for (uint16_t node = 0; node < waiting_.size(); ++node) {
    Waiting& waiting = waiting_[node];
    const int64_t waits_ns = membership.WaitsToBeAdmittedNs(node);
    if (waits_ns < patience_ns_) {
      const bool joined = waiting.reported && membership.view().Find(node);
      if (joined)
        lines.push_back(StrCat("Segment ", segment_, ": node ", NameAt(names_, node), " joined"));
      if (joined) waiting.reported = false;
      continue;
    }
    if (membership.Coordinator() == kNoNode) continue;
    if (waiting.reported && now_ns - waiting.reported_ns < kRepeatNs) continue;
    waiting = {true, now_ns};
    lines.push_back(
        StrCat("Segment ", segment_, ": node ", NameAt(names_, node), " has asked to join for ",
               waits_ns / kNsPerSecond, " s, but does not answer the invitations of node ",
               NameAt(names_, membership.Coordinator()),
               ": check that frames pass between them in both directions (firewall, routes)"));
  }
  return lines;
}

}  // namespace millrace::inline segment
