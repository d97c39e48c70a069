#include "segment/link_log.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/names.h"

namespace millrace::inline segment {

LinkLog::LinkLog(std::string segment, std::vector<std::string> names, uint16_t self,
                 size_t frame_bytes)
    : segment_(std::move(segment)),
      names_(std::move(names)),
      self_(self),
      frame_bytes_(frame_bytes),
      deaf_since_ns_(names_.size(), -1) {}

std::string LinkLog::BrokenLine(const LinkMonitor& links, const BrokenLink& link,
                                int64_t now_ns) const {
  const bool small = link.from == self_ && links.ReceivesSmallFrames(link.to, now_ns);
  const std::string what =
      small ? StrCat("gets only small frames of node ", NameAt(names_, link.to), ", none of ",
                     frame_bytes_, " bytes: check the MTU of the path between them")
            : StrCat("receives no frames from node ", NameAt(names_, link.to));
  return StrCat("Segment ", segment_, ": node ", NameAt(names_, link.from), " ", what);
}

// Scans at intervals only, as there may be a thousand nodes.
void LinkLog::FindDeaf(const LinkMonitor& links, int64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kDeafNs / 16;
  deaf_.clear();
  for (uint16_t node = 0; node < deaf_since_ns_.size(); ++node) {
    int64_t& since = deaf_since_ns_[node];
    if (!links.Reports(node, self_) || !links.ReceivesSmallFrames(node, now_ns)) {
      since = -1;
      continue;
    }
    if (since < 0) since = now_ns;
    if (now_ns - since >= kDeafNs) deaf_.push_back({node, self_});
  }
}

void LinkLog::AddBroken(const LinkMonitor& links, const BrokenLink& link, int64_t now_ns,
                        std::vector<std::string>* lines) {
  const bool known = std::any_of(broken_.begin(), broken_.end(),
                                 [&](const Reported& each) { return each.link == link; });
  if (known) return;
  lines->push_back(BrokenLine(links, link, now_ns));
  broken_.push_back({link, now_ns});
}

std::vector<std::string> LinkLog::Update(const LinkMonitor& links, int64_t now_ns) {
  std::vector<std::string> lines;
  FindDeaf(links, now_ns);
  if (links.broken().empty() && deaf_.empty() && broken_.empty()) return lines;
  for (const BrokenLink& link : links.broken()) AddBroken(links, link, now_ns, &lines);
  for (const BrokenLink& link : deaf_) AddBroken(links, link, now_ns, &lines);
  for (uint16_t node = 0; node < names_.size(); ++node) {
    const bool reported = std::find(left_out_.begin(), left_out_.end(), node) != left_out_.end();
    if (!links.IsExcluded(node) || reported) continue;
    lines.push_back(StrCat("Segment ", segment_, ": node ", NameAt(names_, node),
                           " is left out until it and all members receive each other's frames"));
    left_out_.push_back(node);
  }
  std::erase_if(broken_, [&](Reported& reported) {
    const BrokenLink& link = reported.link;
    if (links.Reports(link.from, link.to)) reported.reported_ns = now_ns;
    if (now_ns - reported.reported_ns < kMendedNs) return false;
    lines.push_back(StrCat("Segment ", segment_, ": node ", NameAt(names_, link.from),
                           " receives frames from node ", NameAt(names_, link.to), " again"));
    return true;
  });
  std::erase_if(left_out_, [&](uint16_t node) {
    return std::none_of(broken_.begin(), broken_.end(), [node](const Reported& reported) {
      return reported.link.from == node || reported.link.to == node;
    });
  });
  return lines;
}

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
