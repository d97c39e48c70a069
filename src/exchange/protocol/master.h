// Master side of the chunks that this node owns: sends their positions and merges the diffs of
// workers. Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exchange/protocol/deferred_diffs.h"
#include "exchange/protocol/diff_cycle.h"
#include "exchange/protocol/exchange_context.h"
#include "exchange/protocol/send_priority.h"

namespace millrace::inline exchange {

class Master {
 public:
  explicit Master(ExchangeContext* context);

  // Adapts to a change of table.owned from `before`: keeps the worker state of chunks that this
  // node still masters, and discards the state of nodes outside `continuing` (ack words).
  void OnView(const std::vector<uint32_t>& before, std::span<const uint64_t> continuing);

  // Adapts the members' shares of a merge to their heartbeats (ExchangeConfig::examples).
  void UpdateShares();

  // Discards deferred diffs before a change of view. Their workers send them again.
  void DropDeferred();
  // Handles a diff from a member of the view. Adds a new diff to the batch, or defers it while a
  // position that is sent directly from the weights is still in the outbox.
  DropReason OnDiff(const FrameView& frame);
  // Adds deferred diffs whose chunk's position has left to the batch, as many as fit. Returns
  // whether it added any; if so, the batch must be run before the next call.
  bool AddDeferred();
  // Whether AddDeferred would add any.
  bool HasDeferredToMerge() const;
  DropReason OnPositionAck(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context);
  // At the end of training, when positions become float32: sends all chunks once more if they were
  // rounded.
  void Flush();
  // Sends at most `budget` positions, of chunks that have changed or that a member has not
  // acknowledged.
  void Poll(int64_t now, size_t budget);
  // Makes Poll check all chunks again.
  void Wake() { clean_ = 0; }
  // Whether all members have acknowledged the current content of all chunks that this node masters.
  bool idle() const {
    return x_.membership.view().members.size() < 2 ||
           (clean_ >= x_.table.owned.size() && deferred_.empty());
  }

 private:
  // State that a master keeps per chunk and worker.
  struct WorkerEnd {
    uint64_t acked = 0;    // the newest position that the worker is known to have taken
    uint64_t merged = 0;   // the newest position when its last diff was merged; 0: none was
    uint32_t applied = 0;  // seq of its last merged diff; valid if `known`
    bool known = false;    // if false, only the parity is known, from the acknowledgement vector
  };

  struct NextPosition {
    uint32_t chunk = 0;
    bool has_own = false;         // this node has made progress since the last position
    bool is_change = false;       // since the last position
    bool repeats_change = false;  // the last position, which was a change, once more
    uint32_t slot = 0;
    bool in_place = false;  // sent from the replica's arrays
  };

  // The times that a pass over the chunks compares with, in ns.
  struct WaitTimes {
    int64_t now = 0;
    int64_t timeout = 0;  // before the first retransmission
    int64_t answer = 0;   // in which answers to a position are on their way
    int64_t usual = 0;    // in which a worker that has progress answers
  };

  // REQUIRES: `node` is a member of the view.
  WorkerEnd& End(const Chunk& chunk, uint16_t node) {
    return ends_[chunk.row * members_.size() + places_[node]];
  }
  // Makes the weights of solvers the master's weights of all chunks that this node masters.
  void CountOwnInFull();
  static void Saw(Chunk* chunk, WorkerEnd* end, uint64_t number);
  // Returns false if the diff has another format than its header says.
  bool AddMerge(Chunk* chunk, const FrameView& frame);
  // Whether all members are known to have taken position `number` or a newer one.
  bool AllHave(const Chunk& chunk, uint64_t number);
  bool RepeatsChange(const Chunk& chunk, uint32_t index);
  bool NeedsPosition(const Chunk& chunk) const {
    return chunk.dirty || chunk.swept != x_.table.version;
  }
  // Whether the next position of the chunk waits: if it `repeats` one, for the retransmission
  // timeout; for answers that are on their way; on a throttled segment also for diffs, or for the
  // turn of the chunk.
  bool IsHeldBack(const Chunk& chunk, uint32_t index, bool repeats, const WaitTimes& times);
  // ChunkOp::share of a merge of the member's progress.
  float MergeShare(uint16_t node) const { return shares_[places_[node]]; }
  // Codec of positions that are no changes.
  Codec codec() const {
    if (x_.at_end) return Codec::kFloat32;
    return x_.changes ? Codec::kInt4 : x_.config.position_codec;
  }
  // Sends the positions of sending_.
  void SendPositions(int64_t now);
  void MakeContents();
  void ReadWithoutOwn();
  // The number of workers with a diff of the chunk that was merged lately (DiffCycle::kLately).
  uint32_t ActiveWorkers(const Chunk& chunk);
  // Encodes the weights in the slot, in place, and sets codec and length of the header.
  void EncodePosition(const NextPosition& next, FrameHeader* header);
  static void WriteChange(std::span<const std::byte> change, std::byte* payload,
                          FrameHeader* header);

  ExchangeContext& x_;
  std::vector<uint16_t> members_;  // of the view, ascending
  std::vector<uint16_t> places_;   // by node: its index in members_, if it is one
  std::vector<float> shares_;      // by place: MergeShare
  std::vector<WorkerEnd> ends_;    // by row and place
  SendPriority priority_;          // by row
  std::vector<DiffCycle> cycles_;  // by row
  DeferredDiffs deferred_;
  std::vector<NextPosition> sending_;  // being made
  std::vector<ChunkOp> ops_;           // that make their contents
  std::vector<float> exact_weights_;   // of one chunk
  uint32_t cursor_ = 0;
  uint32_t clean_ = 0;  // consecutive chunks passed by Poll that need no position
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_
