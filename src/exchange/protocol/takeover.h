// Takeover of a chunk by a new master. Only progress that a crashed node had not sent is lost.
// Internal to exchange/; not thread-safe.
//
// The new master sends a takeover request with the number of its newest position to all members of
// the view. Each member replies with its own newest position (takeover state) if that is newer, or
// else with a takeover acknowledgement. An old master that is alive replies with its own state.
// When all members have replied, the new master has the newest position that any member had, with
// its acknowledgement vector, and continues from there. The vector states for every worker's diff
// whether the position contains it. Members ignore positions of the old master from then on,
// because they are in the new view.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_

#include <cstdint>
#include <vector>

#include "exchange/protocol/exchange_context.h"

namespace millrace::inline exchange {

class Takeover {
 public:
  explicit Takeover(ExchangeContext* context);

  // Adapts to a change of view. `owners`: master of each chunk in the new view. Gives up chunks,
  // keeps chunks, or starts their takeover; sets table.owned.
  void OnView(std::span<const uint16_t> owners);

  // Handle frames from members of the view.
  DropReason OnTakeoverRequest(const FrameView& frame);
  DropReason OnTakeoverAck(const FrameView& frame);
  // May add an operation to the batch. REQUIRES: the batch has none on the chunk.
  DropReason OnTakeoverState(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context);
  void Poll(int64_t now, size_t budget);
  bool idle() const { return taking_over_ == 0 && demoting_.empty(); }

 private:
  void GiveUp(uint32_t index);
  void Demote();
  void RequestTakeover(uint32_t index);
  // Records that `node` has replied, with its PendingMark.
  void RecordReply(uint32_t index, uint16_t node, uint64_t pending_mark);
  void PrepareToMerge(uint32_t index);
  void BecomeMaster(uint32_t index);
  std::span<uint64_t> waiting(uint32_t index) {
    return {waiting_.data() + size_t{index} * x_.table.ack_words(), x_.table.ack_words()};
  }
  std::span<uint64_t> parities(uint32_t index) {
    return {parities_.data() + size_t{index} * x_.table.ack_words(), x_.table.ack_words()};
  }

  ExchangeContext& x_;
  std::vector<uint64_t> waiting_;    // by chunk: members whose reply is missing (ack words)
  std::vector<uint64_t> parities_;   // by chunk: of the diffs of ChunkTable::unsettled (ack words)
  std::vector<uint64_t> everybody_;  // all other members (ack words)
  std::vector<uint32_t> demoting_;   // chunks that were given up and wait for kDemote
  std::vector<ChunkOp> demotions_;   // scratch of Demote
  size_t taking_over_ = 0;           // chunks in kTakingOver
  uint32_t cursor_ = 0;              // index in table.owned of the next request
  bool round_open_ = false;
  uint8_t rounds_ = 0;
  int64_t round_at_ = 0;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_
