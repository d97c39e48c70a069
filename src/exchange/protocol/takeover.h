// How a chunk gets another master without losing anything but what a dead node had
// not sent. Internal to exchange/; not thread-safe.
//
// Whoever is to master a chunk claims it from all members of the view, saying which
// position it saw last. Each member answers with the position it saw last if that is
// newer, or else with a pledge. An old master that is alive counts as one that has
// seen its own state. When all have answered, the newest position that anybody saw
// is the claimer's, together with its acknowledgement vector, which says of every
// worker's diff whether it is contained; the claimer goes on from there.
// Members take no position of the old master any more, since they are in the view.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_
#define MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_

#include <cstdint>
#include <vector>

#include "exchange/protocol/exchange_context.h"

namespace millrace {

class Takeover {
 public:
  explicit Takeover(ExchangeContext* context);

  // The view has changed; `owners` are the masters in the new one. Gives up, keeps,
  // and begins to claim chunks; sets table.owned.
  void OnView(std::span<const uint16_t> owners);

  // From members of the view.
  Drop OnTakeoverRequest(const FrameView& frame);
  Drop OnTakeoverAck(const FrameView& frame);
  // May add an operation to the batch, which must not hold the chunk yet.
  Drop OnTakeoverState(const FrameView& frame);
  void Finish(const ChunkOp& op, const OpContext& context);
  void Poll(int64_t now, size_t budget);
  bool idle() const { return taking_over_ == 0 && demoting_.empty(); }

 private:
  void GiveUp(uint32_t index);
  void Demote();
  void RequestTakeover(uint32_t index);
  void Answered(uint32_t index, uint16_t node);
  void BecomeMaster(uint32_t index);
  std::span<uint64_t> waiting(uint32_t index) {
    return {waiting_.data() + size_t{index} * x_.table.ack_words(), x_.table.ack_words()};
  }

  ExchangeContext& x_;
  std::vector<uint64_t> waiting_;  // by chunk: the members whose answer is missing
  std::vector<uint64_t> everybody_;
  std::vector<uint32_t> demoting_;  // chunks that were given up and are not frozen yet
  std::vector<ChunkOp> demotions_;  // of one call
  size_t taking_over_ = 0;
  uint32_t cursor_ = 0;  // index into table.owned of the next claim
  bool round_open_ = false;
  uint8_t rounds_ = 0;
  int64_t round_at_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_TAKEOVER_H_
