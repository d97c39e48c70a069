#include "exchange/chunk_table.h"

#include <algorithm>

namespace millrace {

void PendingList::PushBack(std::vector<Chunk>& chunks, uint32_t chunk) {
  chunks[chunk].previous = tail_;
  chunks[chunk].next = kNoChunk;
  (tail_ == kNoChunk ? head_ : chunks[tail_].next) = chunk;
  tail_ = chunk;
}

void PendingList::Remove(std::vector<Chunk>& chunks, uint32_t chunk) {
  const Chunk& c = chunks[chunk];
  (c.previous == kNoChunk ? head_ : chunks[c.previous].next) = c.next;
  (c.next == kNoChunk ? tail_ : chunks[c.next].previous) = c.previous;
}

ChunkTable::ChunkTable(int64_t count, uint16_t max_nodes)
    : chunks(count),
      owed(max_nodes, kNoChunk),
      missing(count),
      ack_words_(AckWords(max_nodes)),
      acks_(count * ack_words_) {
  owned.reserve(count);
}

void ChunkTable::KeepAcks(std::span<const uint64_t> keep) {
  for (size_t i = 0; i < acks_.size(); ++i) acks_[i] &= keep[i % ack_words_];
}

void ChunkTable::Took(uint32_t chunk, uint64_t number, std::span<const std::byte> acks) {
  if (chunks[chunk].number == 0) --missing;
  chunks[chunk].number = number;
  std::copy(acks.begin(), acks.end(), std::as_writable_bytes(this->acks(chunk)).begin());
}

void ChunkTable::Settle(uint32_t chunk) {
  chunks[chunk].pending = false;
  pending.Remove(chunks, chunk);
}

void ChunkTable::Owe(uint32_t chunk, bool Chunk::*answer) {
  Chunk& c = chunks[chunk];
  const bool listed = c.owes_seen || c.owes_pledge || c.owes_return;
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
  for (Chunk& c : chunks) c.owes_seen = c.owes_pledge = c.owes_return = false;
}

void ChunkTable::Reset() {
  std::fill(chunks.begin(), chunks.end(), Chunk());
  std::fill(acks_.begin(), acks_.end(), 0);
  std::fill(owed.begin(), owed.end(), kNoChunk);
  pending.Clear();
  owned.clear();
  missing = size();
}

}  // namespace millrace
