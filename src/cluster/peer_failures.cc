#include "cluster/peer_failures.h"

#include <utility>

#include "base/error.h"
#include "base/text/names.h"
#include "base/text/utf8.h"
#include "proto/gossip.pb.h"

namespace millrace::inline cluster {
namespace {

// Whether the node's solvers have completed the schedule: a node that was only stopped publishes no
// checksum of its weights.
bool IsComplete(const RunEnd& end) {
  return end.has_weights() && end.priority() == 0 && !end.has_iteration_ns();
}

}  // namespace

std::string FailureText(std::string_view error) {
  return std::string(CutText(error.substr(0, error.find('\n')), kMaxFailureBytes));
}

PeerFailures::PeerFailures(const ClusterPeers* peers, std::vector<std::string> names)
    : peers_(*peers), names_(std::move(names)) {}

std::vector<std::string> PeerFailures::TakeNew() {
  std::vector<std::string> lines;
  std::vector<std::pair<NodeId, RunEnd>> ends;
  for (const GossipMessage& gossip : peers_.Read(GossipKey::kEnd)) {
    RunEnd end;
    if (gossip.node == peers_.self() ||
        !end.ParseFromArray(gossip.bytes.data(), static_cast<int>(gossip.bytes.size()))) {
      continue;
    }
    if (end.has_failure()) {
      if (IsNewFailure(gossip.node, gossip.incarnation)) {
        endings_[gossip.node] = {gossip.incarnation, true, end.not_finite()};
        lines.push_back(StrCat("node ", NameAt(names_, gossip.node, "#"),
                               " has failed: ", OneLine(FailureText(end.failure()))));
      }
    } else if (IsComplete(end) && gossip.incarnation > endings_[gossip.node].incarnation) {
      endings_[gossip.node] = {gossip.incarnation, false, false};
    }
    ends.emplace_back(gossip.node, std::move(end));
  }
  // Follows the nodes' own messages, which say more.
  for (const auto& [reporter, end] : ends) {
    for (const FailedPeer& peer : end.failed_peer()) {
      const auto node = static_cast<NodeId>(peer.node());
      if (node != peer.node() || node == peers_.self() || !IsNewFailure(node, peer.incarnation()))
        continue;
      endings_[node] = {peer.incarnation(), true, true};
      lines.push_back(StrCat("node ", NameAt(names_, node, "#"),
                             " has failed: the loss is not finite (node ",
                             NameAt(names_, reporter, "#"), " reports it)"));
    }
  }
  return lines;
}

bool PeerFailures::IsNewFailure(NodeId node, uint32_t incarnation) const {
  const auto known = endings_.find(node);
  if (known == endings_.end() || incarnation > known->second.incarnation) return true;
  return incarnation == known->second.incarnation && !known->second.failed;
}

std::vector<std::pair<NodeId, uint32_t>> PeerFailures::AllNotFinite() const {
  std::vector<std::pair<NodeId, uint32_t>> nodes;
  for (const auto& [node, ending] : endings_) {
    if (ending.not_finite) nodes.emplace_back(node, ending.incarnation);
  }
  return nodes;
}

std::string PeerFailures::NotFinite() const {
  std::string names;
  int count = 0;
  for (const auto& [node, incarnation] : AllNotFinite()) {
    names += (count++ > 0 ? ", " : "") + NameAt(names_, node, "#");
  }
  if (count == 0) return "";
  return StrCat(
      count > 1 ? "nodes " : "node ", names, " ended with a loss that is not finite: the ",
      "other nodes trained on, but the model may not be usable; test it, and train again ",
      "with a lower base_lr or fresher exchanges (a faster link, a coarser codec, fewer ",
      "nodes)");
}

}  // namespace millrace::inline cluster
