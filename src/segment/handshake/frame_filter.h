// What lets frames into a segment and out of it: a peer's are believed once it has
// completed the handshake, and with a key every frame is sealed (docs/handshake.md).
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
  std::shared_ptr<const SecretKey> key;  // null: frames are not sealed
  RandomBytes random = SystemRandom;
};

// Why frames of the exchange did not get in; what the counters are indexed by.
enum class FilterDrop : uint8_t {
  kNoSession,       // of a node that has not completed the handshake, or of an earlier life
  kSourceMismatch,  // came from another node than it says
  kBadTag,          // forged, altered, foreign, or without a seal
  kReplayed,        // sealed, but seen before or too old to tell
  kCount
};
const char* FilterDropName(FilterDrop drop);
using FilterDrops = std::array<uint64_t, static_cast<size_t>(FilterDrop::kCount)>;

// Not thread-safe.
class FrameFilter {
 public:
  // Throws Error as Handshake messages does.
  explicit FrameFilter(const FrameFilterConfig& config);

  // The frame that is for the exchange, in the memory of `in`; none if `in` was for the
  // gate itself, or did not get in. Logs whom it believes and whom it refuses.
  std::optional<std::span<const std::byte>> Enter(const InFrame& in, int64_t now_ns);
  // Seals what goes out, in the room of kFrameTagBytes behind its payload; once for each
  // frame. Without a key it does nothing, and needs no room.
  void Sign(PostedFrame* frame);

  Handshake& handshake() { return handshake_; }
  const Handshake& handshake() const { return handshake_; }
  // Whether this node, which is no member yet, may go on. kGiveUp is final.
  JoinVerdict Verdict(int64_t now_ns);
  // One line: why the verdict was kGiveUp; "" if it was not.
  const std::string& refusal() const { return refusal_; }
  const FilterDrops& drops() const { return drops_; }
  // Of these, what came from one node, which is below max_nodes.
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
