#include "exchange/protocol/exchange_context.h"

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_payload.h"

namespace millrace::inline exchange {

DropReason ExchangeContext::CheckPosition(const FrameHeader& h) const {
  if (h.chunk >= table.size() ||
      (h.codec != Codec::kSparse && h.length != MinPayloadBytes(h.codec, floats_of(h.chunk)))) {
    return DropReason::kChunk;
  }
  const bool known = h.ack_bytes == ack_bytes() && h.codec != Codec::kSparse;
  return known ? DropReason::kNone : DropReason::kField;
}

OpBatch::Entry ExchangeContext::AddPosition(Chunk* chunk, const FrameView& frame) {
  const FrameHeader& h = frame.header;
  const size_t place = batch.size();
  const OpBatch::Entry entry = AddOp(chunk, OpContext::Purpose::kPosition, frame);
  if (h.codec == Codec::kFloat32) return entry;
  const auto stride = static_cast<size_t>(arrays.chunk_floats);
  decoded.resize(batch.room() * stride);
  float* const weights = decoded.data() + place * stride;
  DecodeWeights(h.codec, frame.payload.data(), floats_of(h.chunk), weights, simd);
  entry.op.in = reinterpret_cast<const std::byte*>(weights);
  entry.op.in_bytes = static_cast<uint32_t>(4 * floats_of(h.chunk));
  return entry;
}

}  // namespace millrace::inline exchange
