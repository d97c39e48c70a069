// Authentication of frames: a trailer of 24 bytes behind each, which says under the key of
// its sender's life that these bytes are what was sent, and as which number. What is
// forged, altered, foreign, of another life or a repeat is not opened.
//
// A trailer is of bytes that do not change until they have left: a position must be sent
// from a copy (ExchangeConfig::direct is false). All nodes have the cluster's key, so this
// guards against those who do not have it, not against each other.
//
// Nothing is allocated per frame. Not thread-safe. docs/handshake.md has the bytes.
#ifndef MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_
#define MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"
#include "segment/auth/replay_window.h"

namespace millrace {

// The frame's number (8, little-endian, from 1 on), then the tag (16). A multiple of 8, so
// that a frame of whole words stays one.
inline constexpr size_t kFrameTagBytes = 8 + kTagBytes;

// Makes the trailers of one node in one life.
class FrameSigner {
 public:
  // `cluster` is not needed after the call. `life` is that of this node's handshake messages;
  // no two sealers may be made for the same one.
  FrameSigner(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& session_id);

  // Of the frame that `header` and `payload` (either may be empty) are on the wire. Each
  // call takes a number; the trailer is sent once, or to all nodes, or not at all.
  void Sign(std::span<const std::byte> header, std::span<const std::byte> payload,
            std::span<std::byte, kFrameTagBytes> trailer);
  uint64_t signed_frame() const { return number_; }

 private:
  Gmac mac_;
  uint64_t number_ = 0;
};

// Why frames are not opened; what the counters are indexed by.
enum class VerifyResult : uint8_t {
  kVerified,
  kShort,     // less than a header of the exchange and a trailer
  kStranger,  // from a node that has not been admitted
  kOld,       // its number is more than the window behind the newest
  kReplayed,  // its number was opened before
  kTag,       // not what its sender sealed in the life that was admitted
  kCount
};
const char* VerifyResultName(VerifyResult result);

struct Verified {
  VerifyResult result = VerifyResult::kShort;
  std::span<const std::byte> frame;  // within what was given, without trailer; if kVerified
};

// Verifies the trailers of all peers.
class FrameVerifier {
 public:
  // `cluster` is used by Admit and outlives this object; ids of peers are below max_nodes.
  FrameVerifier(const SecretKey& cluster, uint64_t run, uint16_t max_nodes);

  // From now on frames of `node` (below max_nodes) are those of its life `life`, which it
  // has proven (Handshake messages); those of an earlier one are not opened any more. Does
  // nothing if that life was admitted last.
  void Admit(NodeId node, const Nonce& session_id);

  // The sender is the source that the frame's own header names. Trusts no byte.
  Verified Verify(std::span<const std::byte> signed_frame);

  // By VerifyResult.
  const std::array<uint64_t, static_cast<size_t>(VerifyResult::kCount)>& counts() const {
    return counts_;
  }

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
  std::array<uint64_t, static_cast<size_t>(VerifyResult::kCount)> counts_{};
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_AUTH_FRAME_AUTH_H_
