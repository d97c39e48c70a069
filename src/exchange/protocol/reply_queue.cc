#include "exchange/protocol/reply_queue.h"

#include <algorithm>

namespace millrace {

void ReplyQueue::Append(List* list, uint16_t to, uint32_t chunk) {
  if (list->slot == kNoSlot) list->slot = x_.outbox.Take(Outbox::Use::kRest);
  EncodeChunkNumber({chunk, x_.table.chunks[chunk].number},
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
    if (table.owed[node] == kNoChunk) continue;
    List seen{FrameType::kPositionAck}, pledges{FrameType::kTakeoverAck};
    // Each step may leave two lists open and post one takeover state: 3 frames.
    while (table.owed[node] != kNoChunk && posted_ + 3 <= budget) {
      const uint32_t index = table.owed[node];
      Chunk& chunk = table.chunks[index];
      table.owed[node] = chunk.next_owed;
      if (chunk.owes_ack) Append(&seen, node, index);
      if (chunk.owes_takeover_ack) Append(&pledges, node, index);
      if (chunk.owes_takeover_state) PostTakeoverState(index);
      chunk.owes_ack = chunk.owes_takeover_ack = chunk.owes_takeover_state = false;
    }
    PostList(&seen, node);
    PostList(&pledges, node);
    if (posted_ + 3 > budget) break;
  }
  next_ = static_cast<uint16_t>((next_ + 1) % nodes);
}

}  // namespace millrace
