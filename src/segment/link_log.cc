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

}  // namespace millrace::inline segment
