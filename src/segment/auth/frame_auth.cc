#include "segment/auth/frame_auth.h"

#include <glog/logging.h>

#include <iterator>

#include "exchange/protocol/frame.h"
#include "base/wire_bytes.h"
#include "segment/auth/key_file.h"

namespace millrace {

Sealer::Sealer(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& life)
    : tagger_(LifeKey(cluster, run, node, life)) {}

void Sealer::Seal(std::span<const std::byte> header, std::span<const std::byte> payload,
                  std::span<std::byte, kSealBytes> trailer) {
  Put<uint64_t>(trailer.data(), 0, ++number_);
  tagger_.Make(number_, header, payload, trailer.last<kTagBytes>());
}

const char* OpenResultName(OpenResult result) {
  static constexpr const char* kNames[] = {"opened", "short", "stranger", "old", "repeated", "tag"};
  static_assert(std::size(kNames) == static_cast<size_t>(OpenResult::kCount));
  return kNames[static_cast<size_t>(result)];
}

Opener::Opener(const SecretKey& cluster, uint64_t run, uint16_t max_nodes)
    : cluster_(cluster), run_(run), lives_(max_nodes) {}

void Opener::Admit(NodeId node, const Nonce& life) {
  CHECK_LT(node, lives_.size());
  // Its window must not be opened anew: that would let the life's frames in again.
  if (lives_[node] != nullptr && lives_[node]->nonce == life) return;
  lives_[node] = std::make_unique<Life>(LifeKey(cluster_, run_, node, life), life);
}

Opened Opener::Open(std::span<const std::byte> sealed) {
  Opened opened;
  if (sealed.size() >= kFrameHeaderBytes + kSealBytes) {
    const auto frame = sealed.first(sealed.size() - kSealBytes);
    opened.result = Verify(frame, sealed.last(kSealBytes));
    if (opened.result == OpenResult::kOpened) opened.frame = frame;
  }
  ++counts_[static_cast<size_t>(opened.result)];
  return opened;
}

OpenResult Opener::Verify(std::span<const std::byte> frame, std::span<const std::byte> trailer) {
  const NodeId source = FrameSource(frame);
  if (source >= lives_.size() || lives_[source] == nullptr) return OpenResult::kStranger;
  Life& life = *lives_[source];
  const uint64_t number = Get<uint64_t>(trailer.data(), 0);
  if (life.window.Old(number)) return OpenResult::kOld;
  if (life.window.Seen(number)) return OpenResult::kRepeated;
  Tag tag;
  life.tagger.Make(number, frame, {}, tag);
  if (!SameTag(tag, trailer.last<kTagBytes>())) return OpenResult::kTag;
  life.window.Mark(number);
  return OpenResult::kOpened;
}

}  // namespace millrace
