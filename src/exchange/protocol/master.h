// The master end of the chunks that this node owns: sends their positions, merges
// what workers have added. Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_

#include <cstdint>
#include <vector>

#include "exchange/protocol/deferred_diffs.h"
#include "exchange/protocol/exchange_context.h"
#include "exchange/protocol/send_priority.h"

namespace millrace {

class Master {
 public:
  explicit Master(ExchangeContext* context);

  // After table.owned has changed from `before`: moves what is known of the workers
  // of those chunks that stay, forgets about nodes outside `continuing` (ack words).
  void OnView(const std::vector<uint32_t>& before, std::span<const uint64_t> continuing);

  // The view is about to change: forgets deferred diffs, which their workers send again.
  void DropDeferred();
  // From members of the view. A diff that is new is added to the batch, or deferred while a
  // position that is sent from the weights themselves has not left.
  Drop OnDiff(const FrameView& frame);
  // Adds deferred diffs to the batch whose chunks' positions have left, as many as it has room
  // for. Returns whether it added any; then the batch has to be run before the next call.
  bool AddDeferred();
  // Whether AddDeferred would add any.
  bool HasDeferredToMerge() const;
  Drop OnPositionAck(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context);
  // Sends at most `budget` positions of chunks that have changed or that somebody
  // may have missed.
  void Poll(int64_t now, size_t budget);
  // Looks at all chunks again.
  void Wake() { clean_ = 0; }
  // All that this node masters has been seen by everybody.
  bool idle() const {
    return x_.membership.view().members.size() < 2 ||
           (clean_ >= x_.table.owned.size() && deferred_.empty());
  }

 private:
  // What a master knows of one worker of one chunk.
  struct WorkerEnd {
    uint64_t seen = 0;     // the newest position that it is known to have taken
    uint32_t applied = 0;  // its last diff merged; valid if `known`
    bool known = false;    // else only the parity is, from the acknowledgement vector
  };

  WorkerEnd& End(const Chunk& chunk, uint16_t node) {
    return ends_[size_t{chunk.row} * x_.config.max_nodes + node];
  }
  static void Saw(Chunk* chunk, WorkerEnd* end, uint64_t number);
  void AddMerge(Chunk* chunk, const FrameView& frame);
  bool AllSeen(const Chunk& chunk);
  bool NeedsPosition(const Chunk& chunk) const {
    return chunk.dirty || chunk.swept != x_.table.version;
  }
  void SendPositions();

  ExchangeContext& x_;
  std::vector<WorkerEnd> ends_;
  SendPriority priority_;  // by row
  DeferredDiffs deferred_;
  std::vector<uint32_t> sending_;  // chunks of the positions being made
  std::vector<ChunkOp> reads_;
  std::vector<uint32_t> slots_;
  uint32_t cursor_ = 0;
  uint32_t clean_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_MASTER_H_
