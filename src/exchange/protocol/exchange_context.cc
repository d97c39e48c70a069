#include "exchange/protocol/exchange_context.h"

#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_payload.h"
#include "exchange/kernels/sparse_gaps.h"

namespace millrace::inline exchange {

DropReason ExchangeContext::CheckPosition(const FrameHeader& h) const {
  const bool is_change = h.codec == Codec::kSparse;
  if (h.chunk >= table.size() ||
      (!is_change && h.length != MinPayloadBytes(h.codec, floats_of(h.chunk)))) {
    return DropReason::kChunk;
  }
  const bool known = !is_change || (changes && h.sparse_form == SparseForm::kShortGaps);
  return known && h.ack_bytes == ack_bytes() ? DropReason::kNone : DropReason::kField;
}

void ExchangeContext::Reserve() {
  const bool sparse = config.codec.codec == Codec::kSparse;
  if (sparse) scratch.resize(MaxPayloadBytes(arrays.chunk_floats));
  if (sparse || config.position_codec != Codec::kFloat32) DecodedPlace();
}

float* ExchangeContext::DecodedPlace() {
  const auto stride = static_cast<size_t>(arrays.chunk_floats);
  decoded.resize(batch.room() * stride);
  return decoded.data() + batch.size() * stride;
}

std::optional<OpBatch::Entry> ExchangeContext::AddPosition(Chunk* chunk, const FrameView& frame) {
  const FrameHeader& h = frame.header;
  if (h.codec == Codec::kFloat32) return AddOp(chunk, OpContext::Purpose::kPosition, frame);
  float* const weights = DecodedPlace();
  if (h.codec != Codec::kSparse) {
    DecodeWeights(h.codec, frame.payload.data(), floats_of(h.chunk), weights, simd);
  } else if (!changes->Apply(h.chunk, frame.payload, weights)) {
    return std::nullopt;
  }
  const OpBatch::Entry entry = AddOp(chunk, OpContext::Purpose::kPosition, frame);
  entry.op.in = reinterpret_cast<const std::byte*>(weights);
  entry.op.in_bytes = static_cast<uint32_t>(4 * floats_of(h.chunk));
  return entry;
}

std::optional<OpBatch::Entry> ExchangeContext::AddDiff(Chunk* chunk, const FrameView& frame) {
  const FrameHeader& h = frame.header;
  if (h.sparse_form == SparseForm::kBitmap) return AddOp(chunk, OpContext::Purpose::kDiff, frame);
  auto* const sparse = reinterpret_cast<std::byte*>(DecodedPlace());
  const uint32_t bytes =
      ReadGaps(frame.payload, h.sparse_form == SparseForm::kShortGaps, floats_of(h.chunk), sparse);
  if (bytes == 0) return std::nullopt;
  const OpBatch::Entry entry = AddOp(chunk, OpContext::Purpose::kDiff, frame);
  entry.op.in = sparse;
  entry.op.in_bytes = bytes;
  return entry;
}

bool ExchangeContext::IsReadable(const FrameView& diff) {
  const FrameHeader& h = diff.header;
  if (h.sparse_form == SparseForm::kBitmap) return true;
  scratch.resize(MaxPayloadBytes(arrays.chunk_floats));
  return ReadGaps(diff.payload, h.sparse_form == SparseForm::kShortGaps, floats_of(h.chunk),
                  scratch.data()) > 0;
}

void ExchangeContext::Compact(uint32_t slot, FrameHeader* header) {
  std::byte* const payload = outbox.payload(slot);
  scratch.resize(MaxPayloadBytes(arrays.chunk_floats));
  uint32_t bytes = 0;
  header->sparse_form =
      WriteGaps({payload, header->length}, floats_of(header->chunk), scratch, &bytes);
  if (header->sparse_form == SparseForm::kBitmap) return;
  std::memcpy(payload, scratch.data(), bytes);
  header->length = bytes;
}

}  // namespace millrace::inline exchange
