// Per-chunk state of one node in an exchange: one row per chunk, and intrusive lists through the
// rows, so that the exchange allocates nothing while it runs.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_
#define MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/wire_bytes.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/frame.h"

namespace millrace::inline exchange {

enum class ChunkState : uint8_t {
  kWorker,      // another node is the master, or becomes it
  kMaster,      // this node is the master
  kTakingOver,  // this node becomes the master and asks all members for their newest position
};

// A row occupies two cache lines. Times are the exchange's `now`, in ns.
struct alignas(32) Chunk {
  // Number of the newest position that this node has sent (master) or taken (worker). 0: none; a
  // worker then has no weights of the chunk.
  uint64_t number = 0;
  // Master: number of the first position with the current content.
  uint64_t content = 0;
  // ChunkTable::version when the chunk was last read (master) or last checked for progress
  // (worker).
  uint64_t swept = 0;
  // When the last position (master) or the last diff (worker) was last sent.
  int64_t sent_at = 0;
  int64_t last_position_at = 0;  // worker: when the last position arrived
  int64_t taken_at = 0;          // worker: when the last diff was taken and first sent
  uint32_t seq = 0;              // worker: number of the last diff taken
  float scale = 0;               // worker: scale of the pending diff (kInt8)
  uint32_t slot = 0;             // outbox slot of the last position or diff
  uint32_t row = 0;              // kMaster, kTakingOver: index in ChunkTable::owned
  uint32_t previous = kNoChunk, next = kNoChunk;  // links of PendingList
  uint32_t next_reply = kNoChunk;                 // next in the list of replies to `owner`
  uint16_t owner = kNoNode;                       // the chunk's master
  ChunkState state = ChunkState::kWorker;
  Codec pending_codec = Codec::kFloat32;
  uint8_t retries = 0;      // retransmissions of the current content (master) or diff (worker)
  uint8_t unanswered = 0;   // master: positions sent since a worker last acknowledged a newer one
  uint8_t sweep_marks = 0;  // sweeps in which the chunk was exchanged (peer_metrics.h)
  bool pending = false;     // worker: the last diff may not have been merged yet
  bool dirty = false;       // master: merge or takeover since the last position
  // Worker: replies due to `owner`: position acknowledgement, takeover acknowledgement, takeover
  // state.
  bool ack_due = false, takeover_ack_due = false, takeover_state_due = false;
  bool awaiting_master = false;  // no position of the new master has arrived yet
  // Worker: this node was the master until the view changed, and a position that is read directly
  // from the weights is still in the outbox. The node answers no takeover request and sends no diff
  // until that position has left and base is set to the weights (kDemote).
  bool demoting = false;
  // Worker: how far `number` has advanced since the pending diff was taken, at most UINT16_MAX.
  uint16_t pending_age = 0;
  // Worker: positions that came since the pending diff was last sent, and do not acknowledge it.
  uint8_t passed_over = 0;
  uint32_t batch = 0;  // the last OpBatch with an operation on the chunk
};

// The chunks with a pending diff, ordered by last transmission, oldest first.
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
  std::vector<uint32_t> owned;  // chunks in kMaster or kTakingOver, ascending
  // By owner: first chunk of the list of replies due to it; kNoChunk if empty.
  std::vector<uint32_t> replies;
  int64_t unsynced;      // chunks whose number is 0 and that this node does not master
  uint64_t version = 0;  // incremented when a writer other than this exchange changes the weights

  uint32_t size() const { return size_; }
  // Acknowledgement vector of the newest position (worker) or the next position (master).
  std::span<uint64_t> acks(uint32_t chunk) {
    return {acks_.data() + size_t{chunk} * ack_words_, ack_words_};
  }
  std::span<const std::byte> ack_bytes(uint32_t chunk) { return std::as_bytes(acks(chunk)); }
  bool ack(uint32_t chunk, uint16_t node) { return TestBit(ack_bytes(chunk), node); }
  void SetAck(uint32_t chunk, uint16_t node, bool bit) { SetBit(acks(chunk), node, bit); }
  size_t ack_words() const { return ack_words_; }
  // Master, or node that becomes it: members whose pending diff may not be in the weights, because
  // they sent it to an earlier master. A node that joins takes no position of such a chunk
  // (docs/exchange.md).
  std::span<uint64_t> unsettled(uint32_t chunk) {
    return {unsettled_.data() + size_t{chunk} * ack_words_, ack_words_};
  }
  bool IsSettled(uint32_t chunk) {
    const auto words = unsettled(chunk);
    return std::all_of(words.begin(), words.end(), [](uint64_t word) { return word == 0; });
  }
  // Clears the bits outside `keep` (ack_words() words) in both vectors of all chunks.
  void KeepAcks(std::span<const uint64_t> keep);

  // Records that position `number` of the chunk was taken. `acks` is its acknowledgement vector of
  // 8 * ack_words() bytes.
  void OnPosition(uint32_t chunk, uint64_t number, std::span<const std::byte> acks) {
    Chunk& c = chunks[chunk];
    if (c.number == 0) --unsynced;
    c.pending_age =
        static_cast<uint16_t>(std::min<uint64_t>(c.pending_age + (number - c.number), UINT16_MAX));
    c.number = number;
    const std::span<uint64_t> kept = this->acks(chunk);
    for (size_t i = 0; i < kept.size(); ++i) kept[i] = Get<uint64_t>(acks.data(), 8 * i);
  }
  // Ends the pending state of a chunk. REQUIRES: the chunk has a pending diff.
  void ClearPending(uint32_t chunk) {
    chunks[chunk].pending = false;
    pending.Remove(chunks, chunk);
  }

  // Schedules `reply` to the chunk's owner. Adds the chunk to the owner's list
  // unless it is listed already.
  void ScheduleReply(uint32_t chunk, bool Chunk::*reply);
  void ClearReplies();
  bool has_replies() const;
  // Returns to the state of a node without any chunk. Keeps each chunk's `slot`.
  void Reset();

 private:
  const uint32_t size_;
  const size_t ack_words_;
  std::vector<uint64_t> acks_, unsettled_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_CHUNK_TABLE_H_
