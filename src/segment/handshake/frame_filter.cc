#include "segment/handshake/frame_filter.h"

#include <glog/logging.h>

#include "base/error.h"
#include "exchange/protocol/frame.h"

namespace millrace::inline segment {

FrameFilter::FrameFilter(const FrameFilterConfig& config)
    : config_(config),
      handshake_(config.handshake, config_.key.get(), config.random),
      drops_of_(config.handshake.settings.max_nodes) {
  if (!config_.key) return;
  const HandshakeConfig& own = config.handshake;
  MakeSigner();
  verifier_.emplace(*config_.key, own.run, own.settings.max_nodes);
}

void FrameFilter::MakeSigner() {
  const HandshakeConfig& own = config_.handshake;
  if (config_.key) signer_.emplace(*config_.key, own.run, own.node, handshake_.session_id());
}

std::optional<std::span<const std::byte>> FrameFilter::Enter(const InFrame& in, int64_t now_ns) {
  if (IsHandshake(in.bytes)) {
    handshake_.Receive(in.from, in.bytes, now_ns);
    FollowHandshake();
    return std::nullopt;
  }
  std::span<const std::byte> frame;
  const DropReason drop = Check(in, &frame);
  if (drop != DropReason::kNone) {
    drops_.Add(drop);
    if (in.from < drops_of_.size()) ++drops_of_[in.from];
    return std::nullopt;
  }
  return frame;
}

DropReason FrameFilter::Check(const InFrame& in, std::span<const std::byte>* frame) {
  // A frame too short to name a source is left to the exchange, which counts it.
  const bool named = in.bytes.size() >= kFrameHeaderBytes;
  if (named && FrameSource(in.bytes) != in.from) return DropReason::kSourceMismatch;
  if (!handshake_.IsEstablished(in.from)) return DropReason::kNoSession;
  if (!verifier_) {
    *frame = in.bytes;
    return DropReason::kNone;
  }
  const Verified verified = verifier_->Verify(in.bytes);
  switch (verified.result) {
    case VerifyResult::kVerified:
      *frame = verified.frame;
      return DropReason::kNone;
    case VerifyResult::kNoSession:
      return DropReason::kNoSession;
    case VerifyResult::kOld:
    case VerifyResult::kReplayed:
      return DropReason::kReplayed;
    default:
      return DropReason::kBadTag;
  }
}

void FrameFilter::FollowHandshake() {
  for (PeerSession peer; handshake_.NextSession(&peer);) {
    if (verifier_) verifier_->Admit(peer.node, peer.session_id);
    LOG(INFO) << "Connected to node " << config_.handshake.names[peer.node] << "; settings match";
  }
  for (ConfigMismatch mismatch; handshake_.NextMismatch(&mismatch);) {
    LOG(WARNING) << "Refused: " << mismatch.text;
  }
  if (IncarnationRaise raise; handshake_.TakeRaise(&raise)) {
    MakeSigner();
    LOG(WARNING) << "Node " << config_.handshake.names[raise.peer]
                 << " knows an earlier start of this node by incarnation " << raise.known
                 << ", here " << raise.refused << " (has this machine's clock gone back?); goes on "
                 << "with " << handshake_.incarnation();
  }
}

JoinVerdict FrameFilter::Verdict(int64_t now_ns) {
  if (!refusal_.empty()) return JoinVerdict::kGiveUp;
  const JoinVerdict verdict = handshake_.Verdict(now_ns);
  if (verdict == JoinVerdict::kGiveUp) {
    refusal_ = StrCat(handshake_.verdict_reason(), "; no node with equal settings was found for ",
                      config_.handshake.give_up_ns / 1'000'000'000, " s");
  }
  return verdict;
}

void FrameFilter::Sign(PostedFrame* frame) {
  if (!signer_) return;
  CHECK_EQ(frame->room.size(), kFrameTagBytes);
  signer_->Sign(frame->head, frame->payload, frame->room.first<kFrameTagBytes>());
  frame->payload = {frame->room.data() - frame->payload.size(),
                    frame->payload.size() + kFrameTagBytes};
}

}  // namespace millrace::inline segment
