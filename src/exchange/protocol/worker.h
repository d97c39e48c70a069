// Worker side of chunks that other nodes master: takes positions and sends this node's progress as
// diffs. Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_

#include <cstdint>
#include <vector>

#include "exchange/protocol/exchange_context.h"

namespace millrace::inline exchange {

class Worker {
 public:
  explicit Worker(ExchangeContext* context) : x_(*context) {
    passed_over_.reserve(x_.table.size());
  }

  // Handles a position from a member of the view: adds an operation to the batch. REQUIRES: the
  // batch has none on the chunk.
  DropReason OnPosition(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context, int64_t now);
  // Retransmits diffs that were not acknowledged in time, and sends progress unsolicited. At most
  // `budget` frames.
  void Poll(int64_t now, size_t budget);
  // Whether no diff is pending and no progress is left that could be sent.
  bool Drained() const;
  // Makes Poll check the chunks that were not checked since the last progress.
  void Wake() { clean_ = 0; }
  // Adapts to a change of view, which changes the masters.
  void OnView() {
    look_at_ = resend_at_ = 0;
    cursor_ = 0;
    Wake();
  }
  // Makes Poll check all chunks again, including those with a remainder that was not sent.
  void RecheckAll();
  // Sends all pending diffs again. For the end of training, and for a change of view after it,
  // which the diffs under way do not survive. At the end (ExchangeContext::at_end), diffs are
  // float32, with progress that the codec has held back, and without what the merge rule leaves at
  // its fixed point.
  void Flush();
  bool idle() const { return clean_ >= x_.table.size(); }

 private:
  bool MaySend() const;
  Codec codec() const;
  bool HasDiffDue(const Chunk& chunk) const;
  bool InSlot(Codec codec) const {
    return !x_.config.direct || x_.config.copy_diffs || codec != Codec::kFloat32;
  }
  // Returns the share of a chunk's progress that may be taken now; 0: none.
  float ShareOf(uint32_t index);
  uint32_t PrepareTake(float share, ChunkOp* op);
  void NoteTake(const ChunkOp& op, Chunk* chunk);
  void Recheck(Chunk* chunk);
  void DropRest(uint32_t index, Chunk* chunk);
  // In the functions below, `chunk` is the row of `index` or `op.chunk`.
  void TakenPosition(uint32_t index, Chunk* chunk, const OpContext& context, int64_t now);
  void SendDiff(const ChunkOp& op, Chunk* chunk, uint32_t slot, int64_t now);
  void PostDiff(uint32_t index, Chunk* chunk, uint32_t slot, uint32_t bytes, bool in_slot);
  void PassedOver(uint32_t index, Chunk* chunk, int64_t now);
  size_t Resend(int64_t now, size_t budget);
  size_t SendPassedOver(int64_t now, size_t budget);
  int64_t MayBeLostAt(const Chunk& chunk, uint32_t index) const;
  bool IsToBeSentAgain(const Chunk& chunk, uint32_t index, int64_t now);
  void SendAgain(uint32_t index, int64_t now);
  void Push(int64_t now, size_t budget);

  ExchangeContext& x_;
  uint32_t cursor_ = 0;
  uint32_t clean_ = 0;  // consecutive chunks passed by Push that have no progress to send
  // Before this time, no chunk is due for an unsolicited diff.
  int64_t look_at_ = 0;
  int64_t resend_at_ = 0;              // before this time, no diff is due for retransmission
  std::vector<uint32_t> passed_over_;  // chunks whose pending diff was found lost by PassedOver
  int64_t oldest_position_at_ = 0;  // earliest last_position_at of the chunks passed in this scan
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_WORKER_H_
