#include "segment/auth/frame_auth.h"

#include <glog/logging.h>

#include "base/wire_bytes.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/key_file.h"

namespace millrace::inline segment {

FrameSigner::FrameSigner(const SecretKey& cluster, uint64_t run, NodeId node,
                         const Nonce& session_id)
    : mac_(SessionKey(cluster, run, node, session_id)) {}

void FrameSigner::Sign(std::span<const std::byte> header, std::span<const std::byte> payload,
                       std::span<std::byte, kFrameTagBytes> trailer) {
  Put<uint64_t>(trailer.data(), 0, ++number_);
  mac_.Make(number_, header, payload, trailer.last<kTagBytes>());
}

FrameVerifier::FrameVerifier(const SecretKey& cluster, uint64_t run, uint16_t max_nodes)
    : cluster_(cluster), run_(run), sessions_(max_nodes) {}

void FrameVerifier::Admit(NodeId node, const Nonce& session_id) {
  CHECK_LT(node, sessions_.size());
  // The session keeps its replay window: a new one would accept its old frames again.
  if (sessions_[node] != nullptr && sessions_[node]->nonce == session_id) return;
  sessions_[node] =
      std::make_unique<Session>(SessionKey(cluster_, run_, node, session_id), session_id);
}

Verified FrameVerifier::Verify(std::span<const std::byte> signed_frame) {
  Verified verified;
  if (signed_frame.size() >= kFrameHeaderBytes + kFrameTagBytes) {
    const auto frame = signed_frame.first(signed_frame.size() - kFrameTagBytes);
    verified.result = VerifyTrailer(frame, signed_frame.last(kFrameTagBytes));
    if (verified.result == VerifyResult::kVerified) verified.frame = frame;
  }
  return verified;
}

VerifyResult FrameVerifier::VerifyTrailer(std::span<const std::byte> frame,
                                          std::span<const std::byte> trailer) {
  const NodeId source = FrameSource(frame);
  if (source >= sessions_.size() || sessions_[source] == nullptr) return VerifyResult::kNoSession;
  Session& session = *sessions_[source];
  const uint64_t number = Get<uint64_t>(trailer.data(), 0);
  if (session.window.Old(number)) return VerifyResult::kOld;
  if (session.window.Seen(number)) return VerifyResult::kReplayed;
  Tag tag;
  session.mac.Make(number, frame, {}, tag);
  if (!SameTag(tag, trailer.last<kTagBytes>())) return VerifyResult::kTag;
  session.window.Mark(number);
  return VerifyResult::kVerified;
}

}  // namespace millrace::inline segment
