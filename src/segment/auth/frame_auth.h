// Frame authentication: a trailer of 24 bytes behind each frame, with a sequence number and a tag
// under the key of the sender's session. Frames that are forged, altered, replayed or of another
// key or session fail verification.
//
// The tag covers bytes that must not change until they have left, so a position must be sent from a
// copy (ExchangeConfig::direct is false). All nodes have the cluster's key: authentication protects
// against outsiders, not against other nodes.
//
// Allocates nothing per frame. Not thread-safe. docs/handshake.md specifies the format.
#ifndef MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_
#define MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "millrace/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"
#include "segment/auth/replay_window.h"

namespace millrace::inline segment {

// The frame's number (8 bytes, little-endian, from 1 on), then the tag (16 bytes). A multiple of 8,
// so that a frame of whole 8-byte words remains one.
inline constexpr size_t kFrameTagBytes = 8 + kTagBytes;

// Signs the frames of one node in one session.
class FrameSigner {
 public:
  // `cluster` is not needed after the call. `session_id` is that of this node's handshake; at most
  // one FrameSigner may be made for it, because numbers must not repeat under a key.
  FrameSigner(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& session_id);

  // Writes the trailer of the frame that consists of `header` and `payload`; either may be empty.
  // Each call uses a new number. Send the trailer at most once; a multicast counts as once.
  void Sign(std::span<const std::byte> header, std::span<const std::byte> payload,
            std::span<std::byte, kFrameTagBytes> trailer);

 private:
  Gmac mac_;
  uint64_t number_ = 0;
};

// Result of verification.
enum class VerifyResult : uint8_t {
  kVerified,
  kShort,      // shorter than an exchange header and a trailer
  kNoSession,  // no session of the source was admitted
  kOld,        // number is 0, or ReplayWindow::kNumbers or more behind the newest
  kReplayed,   // number was accepted before
  kTag,        // wrong tag for the admitted session
};

struct Verified {
  VerifyResult result = VerifyResult::kShort;
  std::span<const std::byte> frame;  // without trailer, in the memory given; if kVerified
};

// Verifies the frames of all peers.
class FrameVerifier {
 public:
  // Admit uses `cluster`, which outlives this object. Peer ids are below max_nodes.
  FrameVerifier(const SecretKey& cluster, uint64_t run, uint16_t max_nodes);

  // From now on frames of `node` (below max_nodes) must belong to the session `session_id`, which
  // the handshake has verified. Frames of an earlier session fail. No effect if that session was
  // admitted last.
  void Admit(NodeId node, const Nonce& session_id);

  // Takes the sender from the frame's own header. Accepts bytes of any content.
  Verified Verify(std::span<const std::byte> signed_frame);

 private:
  struct Session {
    Session(const SecretKey& key, const Nonce& nonce_of_it) : mac(key), nonce(nonce_of_it) {}
    Gmac mac;
    ReplayWindow window;
    Nonce nonce;
  };

  VerifyResult VerifyTrailer(std::span<const std::byte> frame, std::span<const std::byte> trailer);

  const SecretKey& cluster_;
  const uint64_t run_;
  std::vector<std::unique_ptr<Session>> sessions_;  // by node; null: not admitted
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_
