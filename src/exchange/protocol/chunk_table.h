// What one end of an exchange knows of every chunk: a row per chunk, and lists of
// chunks threaded through the rows, so that nothing is allocated while it runs.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_
#define MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/wire_bytes.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/frame.h"

namespace millrace {

enum class ChunkState : uint8_t {
  kWorker,      // another node masters it, or will
  kMaster,      // this node masters it
  kTakingOver,  // this node will, and is asking who saw the newest position
};

// A row lies in two cache lines.
struct alignas(32) Chunk {
  // The newest position of it that this end has sent or taken; 0: none, and then a
  // worker end holds nothing.
  uint64_t number = 0;
  // Master: the first position that held all it holds now.
  uint64_t content = 0;
  // The progress counter when the chunk was last read (master) or a diff was
  // last looked for (worker).
  uint64_t swept = 0;
  // Master: when its position was sent last. Worker: when its diff was.
  int64_t sent_at = 0;
  int64_t heard_at = 0;  // worker: when the last position came
  int64_t taken_at = 0;  // worker: when the last diff was taken, and sent first
  uint32_t seq = 0;      // worker: number of the last diff taken
  float scale = 0;       // worker: of the pending diff
  uint32_t slot = 0;     // of the outbox: what its last position or diff was posted in
  uint32_t row = 0;      // master, recovering: index among the chunks owned
  uint32_t previous = kNoChunk, next = kNoChunk;  // in the list of pending ones
  uint32_t next_owed = kNoChunk;                  // in its owner's list of answers owed
  uint16_t owner = kNoNode;                       // its master
  ChunkState state = ChunkState::kWorker;
  Codec pending_codec = Codec::kFloat32;
  uint8_t retries = 0;      // since content was sent, or the diff taken, first
  uint8_t unanswered = 0;   // master: positions since somebody has said to have a newer one
  uint8_t sweep_marks = 0;  // of the sweeps that it has been exchanged in (peer_metrics.h)
  bool pending = false;     // worker: a diff may not have been applied yet
  bool dirty = false;       // master: merged something since the last position
  // Worker: answers to a position, to a claim, to a claim with an older position.
  bool owes_ack = false, owes_takeover_ack = false, owes_takeover_state = false;
  bool awaiting_master = false;  // no position of its new master has come yet
  // Worker: was its master until the view changed, and a position has not left that is read from
  // the weights then: nothing is answered or sent before base is set to what was read.
  bool demoting = false;
  uint32_t batch = 0;  // the last batch of operations that it occurs in
};

// The chunks with a diff pending, the one sent longest ago first.
class PendingList {
 public:
  uint32_t front() const { return head_; }
  void PushBack(std::vector<Chunk>& chunks, uint32_t chunk) {
    chunks[chunk].previous = tail_;
    chunks[chunk].next = kNoChunk;
    (tail_ == kNoChunk ? head_ : chunks[tail_].next) = chunk;
    tail_ = chunk;
  }
  void Remove(std::vector<Chunk>& chunks, uint32_t chunk) {
    const Chunk& c = chunks[chunk];
    (c.previous == kNoChunk ? head_ : chunks[c.previous].next) = c.next;
    (c.next == kNoChunk ? tail_ : chunks[c.next].previous) = c.previous;
  }
  void Clear() { head_ = tail_ = kNoChunk; }

 private:
  uint32_t head_ = kNoChunk, tail_ = kNoChunk;
};

// Not thread-safe.
class ChunkTable {
 public:
  ChunkTable(int64_t chunks, uint16_t max_nodes);

  std::vector<Chunk> chunks;
  PendingList pending;
  std::vector<uint32_t> owned;  // chunks mastered or being recovered, ascending
  // Chunks whose owner awaits an answer, by owner: heads of lists, kNoChunk if empty.
  std::vector<uint32_t> owed;
  int64_t unsynced;      // chunks whose number is 0 and that this node does not master
  uint64_t version = 0;  // of the weights: grows when anybody but this exchange changes them

  uint32_t size() const { return size_; }
  // The acknowledgement vector of the newest position, or of the next one.
  std::span<uint64_t> acks(uint32_t chunk) {
    return {acks_.data() + size_t{chunk} * ack_words_, ack_words_};
  }
  std::span<const std::byte> ack_bytes(uint32_t chunk) { return std::as_bytes(acks(chunk)); }
  bool ack(uint32_t chunk, uint16_t node) { return TestBit(ack_bytes(chunk), node); }
  void SetAck(uint32_t chunk, uint16_t node, bool bit) { SetBit(acks(chunk), node, bit); }
  size_t ack_words() const { return ack_words_; }
  // Clears the bits outside `keep` (ack_words() words) for all chunks.
  void KeepAcks(std::span<const uint64_t> keep);

  // The position `number` of a chunk has been taken, with its acknowledgement vector, of
  // 8 * ack_words() bytes.
  void OnPosition(uint32_t chunk, uint64_t number, std::span<const std::byte> acks) {
    if (chunks[chunk].number == 0) --unsynced;
    chunks[chunk].number = number;
    const std::span<uint64_t> kept = this->acks(chunk);
    for (size_t i = 0; i < kept.size(); ++i) kept[i] = Get<uint64_t>(acks.data(), 8 * i);
  }
  // Nothing is pending any more in a chunk where something was.
  void ClearPending(uint32_t chunk) {
    chunks[chunk].pending = false;
    pending.Remove(chunks, chunk);
  }

  // An answer is owed to the chunk's owner: marks which one, and puts the chunk on
  // its owner's list if it is not there yet.
  void Owe(uint32_t chunk, bool Chunk::*answer);
  void ForgetOwed();
  bool owes() const;
  // Back to a node that has nothing.
  void Reset();

 private:
  const uint32_t size_;
  const size_t ack_words_;
  std::vector<uint64_t> acks_;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_
