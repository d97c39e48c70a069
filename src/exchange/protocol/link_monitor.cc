#include "exchange/protocol/link_monitor.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::inline exchange {
namespace {

constexpr int64_t kLooksPerTimeout = 32;
// Capacity of `broken_`.
constexpr size_t kMaxBroken = 256;

}  // namespace

LinkMonitor::LinkMonitor(uint16_t node, uint16_t max_nodes, int64_t peer_timeout_ns)
    : node_(node),
      words_(AckWords(max_nodes)),
      peer_timeout_ns_(peer_timeout_ns),
      peers_(max_nodes),
      rows_(size_t{max_nodes} * words_),
      excluded_(words_) {
  broken_.reserve(kMaxBroken);
  vertices_.reserve(max_nodes);
}

bool LinkMonitor::OnFrame(uint16_t node, bool is_full_size, int64_t now) {
  Peer& peer = peers_[node];
  peer.last_frame_at = now;
  if (!is_full_size) return false;
  peer.full_size_at = now;
  peer.missed = 0;
  peer.counts_anew = true;
  if (!Reports(node_, node)) return false;
  SetBit(Row(node_), node, false);
  return true;
}

void LinkMonitor::OnReport(uint16_t node, std::span<const std::byte> report,
                           uint16_t full_size_sent, int64_t now) {
  std::memcpy(Row(node).data(), report.data(), 8 * words_);
  Peer& peer = peers_[node];
  peer.report_at = now;
  const auto sent = static_cast<uint16_t>(full_size_sent - peer.counted_from);
  // Heartbeats overtake each other, and a node that has started again counts from 0.
  const bool is_older = sent > UINT16_MAX / 2;
  if (std::exchange(peer.counts_anew, false) || is_older) {
    peer.counted_from = full_size_sent;
  } else {
    peer.missed = sent;
  }
}

void LinkMonitor::Skip(int64_t ns) {
  for (Peer& peer : peers_) {
    peer.last_frame_at += ns;
    peer.full_size_at += ns;
    peer.report_at += ns;
  }
}

void LinkMonitor::OnView(const View& view, const View& previous, int64_t now) {
  for (const Member& member : previous.members) {
    if (member.node == node_) continue;  // it leaves the view
    const bool timed_out = now - peers_[member.node].last_frame_at >= peer_timeout_ns_;
    if (!view.Find(member.node) && timed_out) SetBit(Row(node_), member.node, true);
  }
  for (const Member& member : view.members) {
    if (!previous.Find(member.node)) peers_[member.node] = {now, now, now};
  }
  std::fill(excluded_.begin(), excluded_.end(), 0);
  broken_.clear();
  broken_since_ = -1;
  next_look_ = now;
}

void LinkMonitor::Update(const View& view, std::span<const uint64_t> alive, int64_t now) {
  next_look_ = now + peer_timeout_ns_ / kLooksPerTimeout;
  ReportUnresponsive(view, now);
  FindBroken(view, alive);
  std::fill(excluded_.begin(), excluded_.end(), 0);
  if (broken_.empty()) {
    broken_since_ = -1;
    return;
  }
  if (broken_since_ < 0) broken_since_ = now;
  if (now - broken_since_ >= peer_timeout_ns_ / kEvidencePerTimeout) Exclude();
}

void LinkMonitor::ReportUnresponsive(const View& view, int64_t now) {
  for (const Member& member : view.members) {
    if (member.node == node_) continue;
    const Peer& peer = peers_[member.node];
    if (now - peer.last_frame_at >= kUnresponsiveTimeouts * peer_timeout_ns_ ||
        GetsSmallOnly(peer, now)) {
      SetBit(Row(node_), member.node, true);
    }
  }
}

// Time alone would not do: a peer on a slow link sends few full-size frames, and some are lost. If
// all heartbeats are of full size, none brings a count.
bool LinkMonitor::GetsSmallOnly(const Peer& peer, int64_t now) const {
  const int64_t longest = kSmallOnlyTimeouts * peer_timeout_ns_;
  return now - peer.full_size_at >= longest &&
         (peer.missed >= kMissed || now - peer.report_at >= longest);
}

void LinkMonitor::FindBroken(const View& view, std::span<const uint64_t> alive) {
  broken_.clear();
  vertices_.clear();
  const auto is_alive = [&](uint16_t node) { return TestBit(std::as_bytes(alive), node); };
  for (const Member& member : view.members) {
    if (is_alive(member.node)) vertices_.push_back({member.node, member.role, 0, true});
  }
  for (const Vertex& vertex : vertices_) {
    const std::span<const uint64_t> row = Row(vertex.node);
    if (std::all_of(row.begin(), row.end(), [](uint64_t word) { return word == 0; })) continue;
    for (const Vertex& other : vertices_) {
      if (!Reports(vertex.node, other.node) || broken_.size() == kMaxBroken) continue;
      broken_.push_back({vertex.node, other.node});
    }
  }
}

// Returns the remaining member with the most broken links; nullptr if there is none. Ties: a
// joining member before a leaving one before a synced one, because it has less to lose; then the
// larger id, which is never the coordinator's. Never the last synced member, so that a node with
// the weights remains.
LinkMonitor::Vertex* LinkMonitor::Worst() {
  const auto weight = [](Role role) {
    return role == Role::kJoining ? 2 : role == Role::kLeaving ? 1 : 0;
  };
  const auto synced = std::count_if(vertices_.begin(), vertices_.end(), [](const Vertex& v) {
    return v.is_left && v.role == Role::kSynced;
  });
  Vertex* worst = nullptr;
  for (Vertex& vertex : vertices_) {
    if (!vertex.is_left || vertex.degree == 0) continue;
    if (vertex.role == Role::kSynced && synced == 1) continue;  // a node with the weights stays
    const bool worse =
        !worst || vertex.degree > worst->degree ||
        (vertex.degree == worst->degree && weight(vertex.role) >= weight(worst->role));
    if (worse) worst = &vertex;
  }
  return worst;
}

// Excludes a greedy vertex cover of the broken links. It is small if one node is at fault, and
// identical on all nodes that have the same reports.
void LinkMonitor::Exclude() {
  CountDegrees();
  while (Vertex* const worst = Worst()) {
    worst->is_left = false;
    SetBit(excluded_, worst->node, true);
    for (Vertex& other : vertices_) {
      if (other.is_left && IsBroken(worst->node, other.node)) --other.degree;
    }
  }
}

void LinkMonitor::CountDegrees() {
  for (Vertex& vertex : vertices_) {
    vertex.degree = static_cast<uint32_t>(
        std::count_if(vertices_.begin(), vertices_.end(),
                      [&](const Vertex& other) { return IsBroken(vertex.node, other.node); }));
  }
}

}  // namespace millrace::inline exchange
