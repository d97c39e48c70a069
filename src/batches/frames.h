// The frames of the minibatch service, and its handshake, apart from sockets.
//
// Both sides send frames, one after the other, in little-endian order:
//
//   u32 bytes   of the payload
//   u8  kind    below
//   u8  0, 0, 0
//   payload
//
//   kind          from     payload
//   kChallenge    service  u32 version, u32 whether a key is needed, 16 bytes nonce
//   kHello        worker   16 bytes tag, batch_api.Hello
//   kWelcome      service  16 bytes tag, batch_api.Welcome
//   kBegin        worker   batch_api.Begin
//   kBegun        service  batch_api.Begun
//   kRefusal      service  batch_api.Refusal; then the service closes the connection
//   kWant         worker   u64 number: a batch that the worker will need
//   kBatch        service  u64 number, u64 batch of the service, u32 slot, u32 0; without shared
//                          memory the slot is kNoSlot and the values of the layer's tops follow
//   kRelease      worker   u64 number: the worker has copied the values
//   kConsumed     worker   u64 number: it has trained on them
//   kDrop         worker   u64 number: it will not
//   kPing         both     (none)
//   kBye          worker   (none): it takes no more batches, and drops those not consumed
//
// Numbers are those of the worker's own sequence, from 0; the service says which batch of its own
// each one is. With a key, the tag of a Hello is the HMAC-SHA-256, truncated to 16 bytes, of
// "worker", the service's nonce and the message, and that of a Welcome of "service", the nonce of
// the Hello and the message; without a key it is zero.
#ifndef MILLRACE_BATCHES_FRAMES_H_
#define MILLRACE_BATCHES_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proto/batches.pb.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline batches {

inline constexpr uint32_t kBatchProtocolVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 8;
// Largest payload of all frames but kBatch.
inline constexpr size_t kMaxMessageBytes = 64 << 10;
inline constexpr size_t kBatchHeaderBytes = 24;  // of the payload of kBatch
inline constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 31;
inline constexpr uint32_t kNoSlot = ~uint32_t{0};
// Largest number of a batch.
inline constexpr uint64_t kMaxBatchNumber = uint64_t{1} << 40;

enum class FrameKind : uint8_t {
  kChallenge = 1,
  kHello,
  kWelcome,
  kBegin,
  kBegun,
  kRefusal,
  kWant,
  kBatch,
  kRelease,
  kConsumed,
  kDrop,
  kPing,
  kBye,
};

struct FrameHeader {
  uint32_t bytes = 0;
  FrameKind kind = FrameKind::kPing;
};

// Parses the first kFrameHeaderBytes of a frame. None if it is not one, or its payload is larger
// than its kind allows; `max_batch_bytes`: of the payload of kBatch, 0: none is expected.
std::optional<FrameHeader> ParseFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                            uint64_t max_batch_bytes);

// A frame with this payload.
std::string MakeFrame(FrameKind kind, std::string_view payload = {});
// A frame of one number.
std::string MakeFrame(FrameKind kind, uint64_t number);
// The number of such a payload; none if it is not one of at most kMaxBatchNumber.
std::optional<uint64_t> ParseNumberPayload(std::string_view payload);

struct BatchHeader {
  uint64_t number = 0, batch = 0;
  uint32_t slot = kNoSlot;
};
// A frame of a batch up to its values, which have `values_bytes` and follow.
std::string MakeBatchFrame(const BatchHeader& header, uint64_t values_bytes);
// Parses the first kBatchHeaderBytes of the payload.
std::optional<BatchHeader> ParseBatchHeader(std::string_view payload);

struct Challenge {
  uint32_t version = 0;
  bool needs_key = false;
  Nonce nonce = {};
};
std::string MakeChallenge(const Challenge& challenge);
std::optional<Challenge> ParseChallenge(std::string_view payload);

// The key of the services of a cluster, from the secret that its nodes share.
SecretKey BatchKey(const SecretKey& cluster);

enum class Speaker { kWorker, kService };
// The payload of a Hello or Welcome: the tag and `message`. `nonce` is the other side's; `key` is
// null without a key.
std::string MakeTagged(const SecretKey* key, Speaker speaker, const Nonce& nonce,
                       std::string_view message);
// The message of such a payload; none if its tag is wrong.
std::optional<std::string_view> CheckTagged(const SecretKey* key, Speaker speaker,
                                            const Nonce& nonce, std::string_view payload);

// Whether a Welcome is consistent, so that its numbers may be used.
bool IsConsistent(const batch_api::Welcome& welcome);
// Bytes of the values of all tops.
uint64_t ValuesBytes(const batch_api::Welcome& welcome);

// Collects the bytes of a connection and gives its frames. Holds at most one frame.
class FrameDecoder {
 public:
  struct Frame {
    FrameKind kind;
    std::string payload;
  };
  // The next frames may be larger: those of batches, with values.
  void ExpectBatches(uint64_t max_batch_bytes) { max_batch_bytes_ = max_batch_bytes; }

  // Takes bytes from the front of `bytes`, which is shortened, and returns the next frame once it
  // is complete. None: all bytes were taken, or is_broken().
  std::optional<Frame> Take(std::string_view* bytes);
  // What came is no sequence of frames; the connection is to be closed.
  bool is_broken() const { return is_broken_; }

 private:
  uint64_t max_batch_bytes_ = 0;
  bool is_broken_ = false;
  std::string header_;
  std::optional<FrameHeader> parsed_;
  std::string payload_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_FRAMES_H_
