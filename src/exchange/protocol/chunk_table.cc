#include "exchange/protocol/chunk_table.h"

#include <algorithm>

namespace millrace {

ChunkTable::ChunkTable(int64_t count, uint16_t max_nodes)
    : chunks(count),
      owed(max_nodes, kNoChunk),
      unsynced(count),
      size_(static_cast<uint32_t>(count)),
      ack_words_(AckWords(max_nodes)),
      acks_(count * ack_words_) {
  owned.reserve(count);
}

void ChunkTable::KeepAcks(std::span<const uint64_t> keep) {
  for (size_t i = 0; i < acks_.size(); ++i) acks_[i] &= keep[i % ack_words_];
}

void ChunkTable::Owe(uint32_t chunk, bool Chunk::*answer) {
  Chunk& c = chunks[chunk];
  const bool listed = c.owes_ack || c.owes_takeover_ack || c.owes_takeover_state;
  c.*answer = true;
  if (listed) return;
  c.next_owed = owed[c.owner];
  owed[c.owner] = chunk;
}

bool ChunkTable::owes() const {
  return std::any_of(owed.begin(), owed.end(), [](uint32_t head) { return head != kNoChunk; });
}

void ChunkTable::ForgetOwed() {
  std::fill(owed.begin(), owed.end(), kNoChunk);
  for (Chunk& c : chunks) c.owes_ack = c.owes_takeover_ack = c.owes_takeover_state = false;
}

void ChunkTable::Reset() {
  for (Chunk& chunk : chunks) {
    const uint32_t slot = chunk.slot;  // its frame may still be in the outbox
    chunk = Chunk();
    chunk.slot = slot;
  }
  std::fill(acks_.begin(), acks_.end(), 0);
  std::fill(owed.begin(), owed.end(), kNoChunk);
  pending.Clear();
  owned.clear();
  unsynced = size();
}

}  // namespace millrace
