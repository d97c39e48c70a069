#include "exchange/protocol/chunk_table.h"

#include <algorithm>

namespace millrace::inline exchange {

ChunkTable::ChunkTable(int64_t count, uint16_t max_nodes)
    : chunks(count),
      replies(max_nodes, kNoChunk),
      unsynced(count),
      size_(static_cast<uint32_t>(count)),
      ack_words_(AckWords(max_nodes)),
      acks_(count * ack_words_),
      unsettled_(count * ack_words_) {
  owned.reserve(count);
}

void ChunkTable::KeepAcks(std::span<const uint64_t> keep) {
  for (size_t i = 0; i < acks_.size(); ++i) {
    acks_[i] &= keep[i % ack_words_];
    unsettled_[i] &= keep[i % ack_words_];
  }
}

void ChunkTable::ScheduleReply(uint32_t chunk, bool Chunk::*reply) {
  Chunk& c = chunks[chunk];
  const bool listed = c.ack_due || c.takeover_ack_due || c.takeover_state_due;
  c.*reply = true;
  if (listed) return;
  c.next_reply = replies[c.owner];
  replies[c.owner] = chunk;
}

bool ChunkTable::has_replies() const {
  return std::any_of(replies.begin(), replies.end(),
                     [](uint32_t head) { return head != kNoChunk; });
}

void ChunkTable::ClearReplies() {
  std::fill(replies.begin(), replies.end(), kNoChunk);
  for (Chunk& c : chunks) c.ack_due = c.takeover_ack_due = c.takeover_state_due = false;
}

void ChunkTable::Reset() {
  for (Chunk& chunk : chunks) {
    const uint32_t slot = chunk.slot;  // its frame may still be in the outbox
    chunk = Chunk();
    chunk.slot = slot;
  }
  std::fill(acks_.begin(), acks_.end(), 0);
  std::fill(unsettled_.begin(), unsettled_.end(), 0);
  std::fill(replies.begin(), replies.end(), kNoChunk);
  pending.Clear();
  owned.clear();
  unsynced = size();
}

}  // namespace millrace::inline exchange
