// Filter for all frames of a segment. A peer's frames pass once its session is established. With a
// key, it verifies received frames and signs frames to send (docs/handshake.md).
#ifndef MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_
#define MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/protocol/outbox.h"
#include "segment/auth/frame_auth.h"
#include "segment/auth/openssl_mac.h"
#include "segment/handshake/handshake.h"
#include "transport/transport.h"

namespace millrace {

struct FrameFilterConfig {
  HandshakeConfig handshake;
  std::shared_ptr<const SecretKey> key;  // null: frames are not authenticated
  RandomBytes random = SystemRandom;
};

// Why a received frame other than a handshake message was dropped; index of the counters.
enum class FilterDrop : uint8_t {
  kNoSession,       // no session with the sender is established
  kSourceMismatch,  // the transport received it from another node than the source
  kBadTag,          // forged, altered, of another key or session, or without a tag
  kReplayed,        // its number was accepted before, or is too old to check
  kCount
};
const char* FilterDropName(FilterDrop drop);
using FilterDrops = std::array<uint64_t, static_cast<size_t>(FilterDrop::kCount)>;

// Not thread-safe.
class FrameFilter {
 public:
  // Throws Error as Handshake does.
  explicit FrameFilter(const FrameFilterConfig& config);

  // Handles a received frame. Returns the frame without its tag, in the memory of `in`; none if
  // `in` was a handshake message or was dropped. Logs new sessions, mismatches and raises.
  std::optional<std::span<const std::byte>> Enter(const InFrame& in, int64_t now_ns);
  // Writes the frame's tag to the kFrameTagBytes of room behind its payload, and extends the
  // payload by it. Called once per frame. Without a key it does nothing and needs no room.
  void Sign(PostedFrame* frame);

  Handshake& handshake() { return handshake_; }
  const Handshake& handshake() const { return handshake_; }
  // Whether this node, which is not a member yet, may join a run. kGiveUp is final.
  JoinVerdict Verdict(int64_t now_ns);
  // One line: the reason for kGiveUp; "" before.
  const std::string& refusal() const { return refusal_; }
  const FilterDrops& drops() const { return drops_; }
  // Dropped frames of one node, which is below max_nodes.
  uint64_t drops_of(NodeId node) const { return drops_of_[node]; }

 private:
  std::optional<FilterDrop> Check(const InFrame& in, std::span<const std::byte>* frame);
  void FollowHandshake();
  void MakeSigner();

  const FrameFilterConfig config_;
  Handshake handshake_;
  std::optional<FrameSigner> signer_;
  std::optional<FrameVerifier> verifier_;
  std::string refusal_;
  FilterDrops drops_{};
  std::vector<uint64_t> drops_of_;  // by node
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_
