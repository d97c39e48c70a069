// The worker end of chunks that other nodes master: takes positions, sends this
// node's progress. Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_

#include <cstdint>
#include <vector>

#include "exchange/protocol/exchange_context.h"

namespace millrace {

class Worker {
 public:
  explicit Worker(ExchangeContext* context)
      : x_(*context), delays_(context->config.damping ? context->table.size() : 0) {}

  // A position from a member of the view. Adds an operation to the batch, which
  // must not hold its chunk yet.
  Drop OnPosition(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context, int64_t now);
  // Sends diffs again that were not acknowledged in time, and progress that
  // no position has asked for. At most `budget` frames.
  void Poll(int64_t now, size_t budget);
  // No diff is pending, and no progress is left that could be sent.
  bool Drained() const;
  // Goes through the chunks that have not been looked at since progress was made.
  void Wake() { clean_ = 0; }
  // The view has changed: others master the chunks.
  void OnView() {
    look_at_ = resend_at_ = 0;
    cursor_ = 0;
    Wake();
  }
  // Looks at all chunks again, also those where something was left over.
  void LookAgain();
  // From now on takes diffs as float32, also of what the codec has held back.
  void Flush();
  bool idle() const { return clean_ >= x_.table.size(); }

 private:
  bool MaySend() const;
  Codec codec() const;
  bool OwesDiff(const Chunk& chunk) const;
  bool InSlot(Codec codec) const {
    return !x_.config.direct || x_.config.copy_diffs || codec != Codec::kFloat32;
  }
  // How much of a chunk's progress may be taken now; 0: none.
  float ShareOf(uint32_t index);
  // Whether all was taken of a chunk that is to travel, and the rest is to be dropped.
  bool DropsRest(uint32_t index) const;
  uint32_t PrepareTake(float share, ChunkOp* op);
  void NoteTake(const ChunkOp& op, Chunk* chunk);
  // `chunk` is the row of `index` or of `op.chunk`.
  void TakenPosition(uint32_t index, Chunk* chunk, const OpContext& context, int64_t now);
  void SendDiff(const ChunkOp& op, Chunk* chunk, uint32_t slot, int64_t now);
  void PostDiff(uint32_t index, Chunk* chunk, uint32_t slot, uint32_t bytes, bool in_slot);
  size_t Resend(int64_t now, size_t budget);
  int64_t MayBeLostAt(const Chunk& chunk, uint32_t index) const;
  bool IsToBeSentAgain(const Chunk& chunk, uint32_t index, int64_t now);
  void SendAgain(uint32_t index, int64_t now);
  void Push(int64_t now, size_t budget);

  ExchangeContext& x_;
  bool exact_ = false;             // since Flush
  std::vector<TakeDelay> delays_;  // of each chunk; none without damping
  uint32_t cursor_ = 0;
  uint32_t clean_ = 0;  // chunks passed in a row that have no progress to send
  // No chunk will have been without a position for long enough before this.
  int64_t look_at_ = 0;
  int64_t resend_at_ = 0;    // nor has one to be sent again
  int64_t longest_ago_ = 0;  // that a chunk was heard of, of those passed since the first
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_
