// Filter for all frames of a segment. A peer's frames pass once its session is established. With a
// key, it verifies received frames and signs frames to send (docs/handshake.md).
#ifndef MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_
#define MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/protocol/outbox.h"
#include "millrace/transport.h"
#include "segment/auth/frame_auth.h"
#include "segment/auth/openssl_mac.h"
#include "segment/handshake/handshake.h"

namespace millrace::inline segment {

struct FrameFilterConfig {
  HandshakeConfig handshake;
  std::shared_ptr<const SecretKey> key;  // null: frames are not authenticated
  RandomBytes random = SystemRandom;
};

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
  // Dropped frames other than handshake messages.
  const DropCounts& drops() const { return drops_; }
  // Dropped frames of one node, which is below max_nodes.
  uint64_t drops_of(NodeId node) const { return drops_of_[node]; }

 private:
  DropReason Check(const InFrame& in, std::span<const std::byte>* frame);
  void FollowHandshake();
  void MakeSigner();

  const FrameFilterConfig config_;
  Handshake handshake_;
  std::optional<FrameSigner> signer_;
  std::optional<FrameVerifier> verifier_;
  std::string refusal_;
  DropCounts drops_;
  std::vector<uint64_t> drops_of_;  // by node
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_
