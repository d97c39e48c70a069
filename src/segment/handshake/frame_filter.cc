#include "segment/handshake/frame_filter.h"

#include <glog/logging.h>

#include "base/error.h"
#include "exchange/protocol/frame.h"

namespace millrace {

const char* GateDropName(GateDrop drop) {
  constexpr const char* kNames[] = {"not_introduced", "other_sender", "seal", "repeated"};
  return kNames[static_cast<size_t>(drop)];
}

Gate::Gate(const GateConfig& config)
    : config_(config),
      introductions_(config.introductions, config_.key.get(), config.random),
      drops_of_(config.introductions.settings.max_nodes) {
  if (!config_.key) return;
  const IntroductionsConfig& own = config.introductions;
  MakeSealer();
  opener_.emplace(*config_.key, own.run, own.settings.max_nodes);
}

void Gate::MakeSealer() {
  const IntroductionsConfig& own = config_.introductions;
  if (config_.key) sealer_.emplace(*config_.key, own.run, own.node, introductions_.life());
}

std::optional<std::span<const std::byte>> Gate::Enter(const InFrame& in, int64_t now_ns) {
  if (IsIntroduction(in.bytes)) {
    introductions_.Receive(in.from, in.bytes, now_ns);
    FollowIntroductions();
    return std::nullopt;
  }
  std::span<const std::byte> frame;
  if (const auto drop = Check(in, &frame)) {
    ++drops_[static_cast<size_t>(*drop)];
    if (in.from < drops_of_.size()) ++drops_of_[in.from];
    return std::nullopt;
  }
  return frame;
}

std::optional<GateDrop> Gate::Check(const InFrame& in, std::span<const std::byte>* frame) {
  // Too short to name a sender: the exchange counts those.
  const bool named = in.bytes.size() >= kFrameHeaderBytes;
  if (named && FrameSource(in.bytes) != in.from) return GateDrop::kOtherSender;
  if (!introductions_.Knows(in.from)) return GateDrop::kNotIntroduced;
  if (!opener_) {
    *frame = in.bytes;
    return std::nullopt;
  }
  const Opened opened = opener_->Open(in.bytes);
  switch (opened.result) {
    case OpenResult::kOpened:
      *frame = opened.frame;
      return std::nullopt;
    case OpenResult::kStranger:
      return GateDrop::kNotIntroduced;
    case OpenResult::kOld:
    case OpenResult::kRepeated:
      return GateDrop::kRepeated;
    default:
      return GateDrop::kSeal;
  }
}

void Gate::FollowIntroductions() {
  for (Introduced peer; introductions_.NextIntroduced(&peer);) {
    if (opener_) opener_->Admit(peer.node, peer.life);
    LOG(INFO) << "Node " << config_.introductions.names[peer.node] << " is there";
  }
  for (Mismatch mismatch; introductions_.NextMismatch(&mismatch);) {
    LOG(WARNING) << "Refused: " << mismatch.text;
  }
  if (IncarnationRaise raise; introductions_.TakeRaise(&raise)) {
    MakeSealer();
    LOG(WARNING) << "Node " << config_.introductions.names[raise.peer]
                 << " knows an earlier start of this node by incarnation " << raise.known
                 << ", here " << raise.refused << " (has this machine's clock gone back?); goes on "
                 << "with " << introductions_.incarnation();
  }
}

JoinVerdict Gate::Verdict(int64_t now_ns) {
  if (!refusal_.empty()) return JoinVerdict::kGiveUp;
  const JoinVerdict verdict = introductions_.Verdict(now_ns);
  if (verdict == JoinVerdict::kGiveUp) {
    refusal_ = Cat(introductions_.verdict_reason(), "; no node that is set up alike was met for ",
                   config_.introductions.patience_ns / 1'000'000'000, " s");
  }
  return verdict;
}

void Gate::Seal(PostedFrame* frame) {
  if (!sealer_) return;
  CHECK_EQ(frame->room.size(), kSealBytes);
  sealer_->Seal(frame->head, frame->payload, frame->room.first<kSealBytes>());
  frame->payload = {frame->room.data() - frame->payload.size(), frame->payload.size() + kSealBytes};
}

}  // namespace millrace
