#include "cluster/peer_failures.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "proto/run_end.pb.h"

namespace millrace::inline cluster {

std::string FailureText(std::string_view error) {
  return std::string(CutText(error.substr(0, error.find('\n')), kMostFailureBytes));
}

PeerFailures::PeerFailures(NodeId self, std::vector<std::string> names,
                           std::function<std::vector<GossipMessage>()> read)
    : self_(self), names_(std::move(names)), read_(std::move(read)) {}

std::vector<std::string> PeerFailures::Look() {
  std::vector<std::string> lines;
  for (const GossipMessage& gossip : read_()) {
    RunEnd end;
    if (gossip.node == self_ ||
        !end.ParseFromArray(gossip.bytes.data(), static_cast<int>(gossip.bytes.size()))) {
      continue;
    }
    const auto known = failures_.find(gossip.node);
    const bool is_known = known != failures_.end();
    if (is_known && gossip.incarnation < known->second.incarnation) continue;
    if (!end.has_failure()) {
      // A later incarnation has ended a run without an error.
      if (is_known && gossip.incarnation > known->second.incarnation) failures_.erase(known);
      continue;
    }
    if (is_known && gossip.incarnation == known->second.incarnation) continue;
    failures_[gossip.node] = {gossip.incarnation, end.not_finite()};
    lines.push_back(
        StrCat("node ", NameOf(gossip.node), " has failed: ", OneLine(FailureText(end.failure()))));
  }
  return lines;
}

std::string PeerFailures::NotFinite() const {
  std::string names;
  int count = 0;
  for (const auto& [node, failure] : failures_) {
    if (!failure.not_finite) continue;
    names += (count++ > 0 ? ", " : "") + NameOf(node);
  }
  if (count == 0) return "";
  return StrCat(
      count > 1 ? "nodes " : "node ", names, " ended with a loss that is not finite: the ",
      "other nodes trained on, but the model may not be usable; test it, and train again ",
      "with a lower base_lr or fresher exchanges (a faster link, a coarser codec, fewer ",
      "nodes)");
}

std::string PeerFailures::NameOf(NodeId node) const {
  return node < names_.size() ? names_[node] : StrCat("#", node);
}

}  // namespace millrace::inline cluster
