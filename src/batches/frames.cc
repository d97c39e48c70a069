#include "batches/frames.h"

#include <algorithm>
#include <cstring>

#include "base/wire_bytes.h"

namespace millrace::inline batches {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::byte* BytesOf(std::string* text) { return reinterpret_cast<std::byte*>(text->data()); }

std::string Header(FrameKind kind, uint64_t bytes) {
  std::string header(kFrameHeaderBytes, '\0');
  Put(BytesOf(&header), 0, static_cast<uint32_t>(bytes));
  Put(BytesOf(&header), 4, static_cast<uint8_t>(kind));
  return header;
}

Tag TagOf(const SecretKey* key, Speaker speaker, const Nonce& nonce, std::string_view message) {
  Tag tag{};
  if (key == nullptr) return tag;
  std::string text = speaker == Speaker::kWorker ? "worker " : "service ";
  text.append(reinterpret_cast<const char*>(nonce.data()), nonce.size());
  text += message;
  HmacSha256(*key).Make(BytesOf(text), tag);
  return tag;
}

}  // namespace

std::optional<FrameHeader> ParseFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                            uint64_t max_batch_bytes) {
  const FrameHeader header{Get<uint32_t>(bytes.data(), 0),
                           static_cast<FrameKind>(Get<uint8_t>(bytes.data(), 4))};
  if (header.kind < FrameKind::kChallenge || header.kind > FrameKind::kBye) return {};
  if (bytes[5] != std::byte{0} || bytes[6] != std::byte{0} || bytes[7] != std::byte{0}) return {};
  const uint64_t limit =
      header.kind == FrameKind::kBatch ? max_batch_bytes : uint64_t{kMaxMessageBytes};
  if (header.bytes > limit) return {};
  return header;
}

std::string MakeFrame(FrameKind kind, std::string_view payload) {
  std::string frame = Header(kind, payload.size());
  frame += payload;
  return frame;
}

std::string MakeFrame(FrameKind kind, uint64_t number) {
  std::string payload(sizeof(number), '\0');
  Put(BytesOf(&payload), 0, number);
  return MakeFrame(kind, payload);
}

std::optional<uint64_t> ParseNumberPayload(std::string_view payload) {
  if (payload.size() != sizeof(uint64_t)) return {};
  const auto number = Get<uint64_t>(BytesOf(payload).data(), 0);
  if (number > kMaxBatchNumber) return {};
  return number;
}

std::string MakeBatchFrame(const BatchHeader& header, uint64_t values_bytes) {
  std::string frame = Header(FrameKind::kBatch, kBatchHeaderBytes + values_bytes);
  frame.resize(kFrameHeaderBytes + kBatchHeaderBytes, '\0');
  std::byte* const at = BytesOf(&frame) + kFrameHeaderBytes;
  Put(at, 0, header.number);
  Put(at, 8, header.batch);
  Put(at, 16, header.slot);
  return frame;
}

std::optional<BatchHeader> ParseBatchHeader(std::string_view payload) {
  if (payload.size() < kBatchHeaderBytes) return {};
  const std::byte* const at = BytesOf(payload).data();
  const BatchHeader header{Get<uint64_t>(at, 0), Get<uint64_t>(at, 8), Get<uint32_t>(at, 16)};
  if (header.number > kMaxBatchNumber || header.batch > kMaxBatchNumber) return {};
  return header;
}

std::string MakeChallenge(const Challenge& challenge) {
  std::string payload(8 + sizeof(Nonce), '\0');
  Put(BytesOf(&payload), 0, challenge.version);
  Put(BytesOf(&payload), 4, static_cast<uint32_t>(challenge.needs_key));
  Put(BytesOf(&payload), 8, challenge.nonce);
  return MakeFrame(FrameKind::kChallenge, payload);
}

std::optional<Challenge> ParseChallenge(std::string_view payload) {
  if (payload.size() != 8 + sizeof(Nonce)) return {};
  const std::byte* const at = BytesOf(payload).data();
  return Challenge{Get<uint32_t>(at, 0), Get<uint32_t>(at, 4) != 0, Get<Nonce>(at, 8)};
}

SecretKey BatchKey(const SecretKey& cluster) {
  return DeriveKey(cluster, BytesOf("millrace batches 1"));
}

std::string MakeTagged(const SecretKey* key, Speaker speaker, const Nonce& nonce,
                       std::string_view message) {
  const Tag tag = TagOf(key, speaker, nonce, message);
  std::string payload(reinterpret_cast<const char*>(tag.data()), tag.size());
  payload += message;
  return payload;
}

std::optional<std::string_view> CheckTagged(const SecretKey* key, Speaker speaker,
                                            const Nonce& nonce, std::string_view payload) {
  if (payload.size() < kTagBytes) return {};
  const std::string_view message = payload.substr(kTagBytes);
  const Tag expected = TagOf(key, speaker, nonce, message);
  if (!SameTag(BytesOf(payload).first<kTagBytes>(), expected)) return {};
  return message;
}

uint64_t ValuesBytes(const batch_api::Welcome& welcome) {
  uint64_t bytes = 0;
  for (const batch_api::Top& top : welcome.top()) {
    uint64_t values = sizeof(float);
    for (const int64_t dim : top.dim()) values *= static_cast<uint64_t>(dim);
    bytes += values;
  }
  return bytes;
}

bool IsConsistent(const batch_api::Welcome& welcome) {
  if (welcome.top_size() == 0 || welcome.top_size() > 64) return false;
  for (const batch_api::Top& top : welcome.top()) {
    uint64_t values = sizeof(float);
    if (top.dim_size() == 0 || top.dim_size() > 32) return false;
    for (const int64_t dim : top.dim()) {
      if (dim < 1 || static_cast<uint64_t>(dim) > kMaxBatchBytes) return false;
      values *= static_cast<uint64_t>(dim);
      if (values > kMaxBatchBytes) return false;
    }
    if (static_cast<uint64_t>(top.dim(0)) != welcome.batch_size()) return false;
  }
  const uint64_t bytes = ValuesBytes(welcome);
  return bytes <= kMaxBatchBytes && welcome.credit() > 0 && welcome.timeout_ms() > 0 &&
         welcome.slot_bytes() <= uint64_t{1} << 40 && welcome.slots() <= 1 << 20 &&
         welcome.offset() % sizeof(float) == 0 && welcome.offset() <= welcome.slot_bytes() &&
         bytes <= welcome.slot_bytes() - welcome.offset();
}

std::optional<FrameDecoder::Frame> FrameDecoder::Take(std::string_view* bytes) {
  if (is_broken_) return {};
  const auto move = [&](std::string* to, size_t wanted) {
    const size_t count = std::min(wanted - to->size(), bytes->size());
    to->append(bytes->substr(0, count));
    bytes->remove_prefix(count);
    return to->size() == wanted;
  };
  if (!parsed_) {
    if (!move(&header_, kFrameHeaderBytes)) return {};
    parsed_ = ParseFrameHeader(BytesOf(header_).first<kFrameHeaderBytes>(), max_batch_bytes_);
    if (!parsed_) {
      is_broken_ = true;
      return {};
    }
    payload_.reserve(parsed_->bytes);
  }
  if (!move(&payload_, parsed_->bytes)) return {};
  Frame frame{parsed_->kind, std::move(payload_)};
  parsed_.reset();
  header_.clear();
  payload_.clear();
  return frame;
}

}  // namespace millrace::inline batches
