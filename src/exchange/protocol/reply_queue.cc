#include "exchange/protocol/reply_queue.h"

#include <algorithm>

namespace millrace::inline exchange {

void ReplyQueue::Append(List* list, uint16_t to, uint32_t index) {
  if (list->slot == kNoSlot) list->slot = x_.outbox.Take(Outbox::Use::kRest);
  const Chunk& chunk = x_.table.chunks[index];
  const bool takeover = list->type == FrameType::kTakeoverAck;
  EncodeChunkNumber({index, takeover ? x_.PendingMark(chunk) : chunk.number},
                    x_.outbox.payload(list->slot) + kChunkNumberBytes * list->entries);
  if (++list->entries == ListCapacity()) PostList(list, to);
}

void ReplyQueue::PostList(List* list, uint16_t to) {
  if (list->slot == kNoSlot) return;
  FrameHeader header = x_.Header(list->type, to);
  header.length = static_cast<uint32_t>(kChunkNumberBytes * list->entries);
  x_.Post(list->slot, header, {}, {x_.outbox.payload(list->slot), header.length});
  ++posted_;
  *list = {list->type};
}

void ReplyQueue::PostTakeoverState(uint32_t index) {
  const Chunk& chunk = x_.table.chunks[index];
  const uint32_t slot = x_.outbox.Take(Outbox::Use::kRest);
  ChunkOp op;
  op.kind = ChunkOpKind::kReturn;
  op.chunk = index;
  x_.WriteTo(slot, &op);
  x_.executor.Run({&op, 1});
  FrameHeader header = x_.Header(FrameType::kTakeoverState, chunk.owner);
  header.ack_bytes = x_.ack_bytes();
  header.chunk = index;
  header.number = chunk.number;
  header.seq = x_.PendingMark(chunk);
  header.length = op.out_bytes;
  x_.Post(slot, header, x_.table.ack_bytes(index), {op.out, op.out_bytes});
  ++posted_;
}

void ReplyQueue::Poll(size_t budget) {
  ChunkTable& table = x_.table;
  const uint16_t nodes = x_.config.max_nodes;
  posted_ = 0;
  for (uint16_t i = 0; i < nodes; ++i) {
    const uint16_t node = static_cast<uint16_t>((next_ + i) % nodes);
    if (table.replies[node] == kNoChunk) continue;
    List acks{FrameType::kPositionAck}, takeover_acks{FrameType::kTakeoverAck};
    // Each step may leave two lists open and post one takeover state: 3 frames.
    while (table.replies[node] != kNoChunk && posted_ + 3 <= budget) {
      const uint32_t index = table.replies[node];
      Chunk& chunk = table.chunks[index];
      table.replies[node] = chunk.next_reply;
      if (chunk.ack_due) Append(&acks, node, index);
      if (chunk.takeover_ack_due) Append(&takeover_acks, node, index);
      if (chunk.takeover_state_due) PostTakeoverState(index);
      chunk.ack_due = chunk.takeover_ack_due = chunk.takeover_state_due = false;
    }
    PostList(&acks, node);
    PostList(&takeover_acks, node);
    if (posted_ + 3 > budget) break;
  }
  next_ = static_cast<uint16_t>((next_ + 1) % nodes);
}

}  // namespace millrace::inline exchange
