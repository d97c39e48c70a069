// What lets frames into a segment and out of it: a peer's are believed once it has
// introduced itself, and with a key every frame is sealed (docs/introductions.md).
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
#include "segment/handshake/handshake.h"
#include "segment/auth/openssl_mac.h"
#include "segment/auth/frame_auth.h"
#include "transport/transport.h"

namespace millrace {

struct GateConfig {
  IntroductionsConfig introductions;
  std::shared_ptr<const SecretKey> key;  // null: frames are not sealed
  RandomBytes random = SystemRandom;
};

// Why frames of the exchange did not get in; what the counters are indexed by.
enum class GateDrop : uint8_t {
  kNotIntroduced,  // of a node that has not introduced itself, or of an earlier life
  kOtherSender,    // came from another node than it says
  kSeal,           // forged, altered, foreign, or without a seal
  kRepeated,       // sealed, but seen before or too old to tell
  kCount
};
const char* GateDropName(GateDrop drop);
using GateDrops = std::array<uint64_t, static_cast<size_t>(GateDrop::kCount)>;

// Not thread-safe.
class Gate {
 public:
  // Throws Error as Introductions does.
  explicit Gate(const GateConfig& config);

  // The frame that is for the exchange, in the memory of `in`; none if `in` was for the
  // gate itself, or did not get in. Logs whom it believes and whom it refuses.
  std::optional<std::span<const std::byte>> Enter(const InFrame& in, int64_t now_ns);
  // Seals what goes out, in the room of kSealBytes behind its payload; once for each
  // frame. Without a key it does nothing, and needs no room.
  void Seal(PostedFrame* frame);

  Introductions& introductions() { return introductions_; }
  const Introductions& introductions() const { return introductions_; }
  // Whether this node, which is no member yet, may go on. kGiveUp is final.
  JoinVerdict Verdict(int64_t now_ns);
  // One line: why the verdict was kGiveUp; "" if it was not.
  const std::string& refusal() const { return refusal_; }
  const GateDrops& drops() const { return drops_; }
  // Of these, what came from one node, which is below max_nodes.
  uint64_t drops_of(NodeId node) const { return drops_of_[node]; }

 private:
  std::optional<GateDrop> Check(const InFrame& in, std::span<const std::byte>* frame);
  void FollowIntroductions();
  void MakeSealer();

  const GateConfig config_;
  Introductions introductions_;
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
  std::string refusal_;
  GateDrops drops_{};
  std::vector<uint64_t> drops_of_;  // by node
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_FRAME_FILTER_H_
