// Sends the replies that masters await from this node: position acknowledgements and takeover
// acknowledgements, many of which share a frame, and takeover states. Internal to exchange/; not
// thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_REPLY_QUEUE_H_
#define MILLRACE_EXCHANGE_PROTOCOL_REPLY_QUEUE_H_

#include <cstdint>

#include "exchange/protocol/exchange_context.h"

namespace millrace::inline exchange {

class ReplyQueue {
 public:
  explicit ReplyQueue(ExchangeContext* context) : x_(*context) {}

  // Sends scheduled replies, at most `budget` frames; none if `budget` is below 3.
  void Poll(size_t budget);

 private:
  // A kPositionAck or kTakeoverAck frame being filled.
  struct List {
    FrameType type;
    uint32_t slot = kNoSlot;
    size_t entries = 0;
  };

  void Append(List* list, uint16_t to, uint32_t index);
  void PostList(List* list, uint16_t to);
  void PostTakeoverState(uint32_t index);
  size_t ListCapacity() const { return x_.outbox.payload_bytes() / kChunkNumberBytes; }

  ExchangeContext& x_;
  size_t posted_ = 0;
  uint16_t next_ = 0;  // the node that the next Poll serves first
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_REPLY_QUEUE_H_
