#include "exchange/protocol/peer_metrics.h"

namespace millrace::inline exchange {

PeerMetrics::PeerMetrics(uint16_t max_nodes, uint32_t chunks)
    : chunks_(chunks), peers_(max_nodes), left_(chunks) {}

PeerCounts PeerMetrics::counts(uint16_t node) const {
  const Peer& peer = peers_[node];
  PeerCounts stats;
  stats.frames_out = to_all_.frames.Read() + peer.out.frames.Read();
  stats.bytes_out = to_all_.bytes.Read() + peer.out.bytes.Read();
  stats.frames_in = peer.in.frames.Read();
  stats.bytes_in = peer.in.bytes.Read();
  stats.positions_taken = peer.positions_taken.Read();
  stats.diffs_sent = peer.diffs_sent.Read();
  stats.resends = peer.resends.Read();
  stats.diffs_merged = peer.diffs_merged.Read();
  stats.sweeps = peer.sweeps.Read();
  stats.drops = peer.drops.Read();
  return stats;
}

void PeerMetrics::BeginSweeps(ChunkTable* table, bool all) {
  for (Peer& peer : peers_) {
    peer.mark = true;
    peer.owned = 0;
  }
  if (all) {
    mark_ = true;
    left_ = chunks_;
  }
  for (Chunk& chunk : table->chunks) {
    chunk.sweep_marks &= all ? 0 : kMark;
    if (chunk.owner < peers_.size()) ++peers_[chunk.owner].owned;
  }
  for (Peer& peer : peers_) {
    peer.left = peer.owned;
    peer.share = 1.0 / peer.owned;  // unused if the peer owns none
  }
}

}  // namespace millrace::inline exchange
