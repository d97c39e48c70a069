// Gossip messages of any content. A message that decodes is encoded to the same bytes, an accepted
// message is from a node of the cluster and within the size limit, and every outgoing message
// decodes.
//
// The first byte of an input selects the repair of the 104-byte frames that follow: 1: the
// checksum.
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "segment/gossip/gossip.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr size_t kFrame = 104, kAtChecksum = 60;
constexpr size_t kNodes = 3;

GossipConfig ConfigOf(NodeId node) {
  GossipConfig config;
  config.run = 5;
  config.node = node;
  config.max_frame_bytes = kFrame;
  config.peers = {static_cast<NodeId>(1 - node)};
  return config;
}

// The frames that node 1 sends to node 0: complete gossip messages, fragments and acknowledgements.
std::string Spoken(size_t bytes) {
  GossipStore theirs(kNodes, 1, 1), ours(kNodes, 0, 1);
  Gossip sender(ConfigOf(1), &theirs), receiver(ConfigOf(0), &ours);
  sender.Admit(0, 1);
  receiver.Admit(1, 1);
  const std::vector<std::byte> content(bytes, std::byte{7});
  theirs.Publish(GossipKey::kTest, content);
  theirs.Take(GossipStore::EntryOf(2, GossipKey::kReport), {3, 9}, content, 7);
  ours.Publish(GossipKey::kReport, content);
  std::string all;
  std::vector<OutGossip> room(20);
  for (int64_t now = 0; now < 4; ++now) {
    for (size_t i = 0, count = receiver.Send(room, now); i < count; ++i) {
      sender.Receive(0, room[i].frame(), now);
    }
    for (size_t i = 0, count = sender.Send(room, now); i < count; ++i) {
      receiver.Receive(1, room[i].frame(), now);
      std::string frame(reinterpret_cast<char*>(room[i].frame().data()), room[i].frame().size());
      frame.resize(kFrame);
      all += frame;
    }
  }
  return all;
}

bool DecodesSafely(std::span<const std::byte> frame) {
  GossipHead head;
  std::span<const std::byte> part;
  if (DecodeGossip(frame, &head, &part) != DropReason::kNone) return true;
  std::array<std::byte, kGossipHeadBytes> again;
  EncodeGossip(head, part, again);
  return head.offset + part.size() <= kMaxGossipBytes && head.key < GossipKey::kCount &&
         std::equal(again.begin(), again.end(), frame.begin());
}

// Sets the length of a frame that may be padded to kFrame, and its checksum if selected.
std::span<std::byte> Repaired(uint8_t how, std::span<std::byte> frame) {
  if (frame.size() < kGossipHeadBytes) return frame;
  const bool ack = frame[5] == std::byte{2};
  const size_t total = Get<uint16_t>(frame.data(), 26), offset = Get<uint16_t>(frame.data(), 28);
  const size_t part = ack || offset > total ? 0 : total - offset;
  frame = frame.first(std::min(frame.size(), kGossipHeadBytes + part));
  if ((how & 1) != 0) {
    const uint32_t crc = Crc32c(frame.first(kAtChecksum));
    const auto rest = frame.subspan(kGossipHeadBytes);
    Put<uint32_t>(frame.data(), kAtChecksum, rest.empty() ? crc : Crc32c(rest, crc));
  }
  return frame;
}

bool AllWellFormed(const GossipStore& store) {
  for (size_t key = 0; key < kGossipKeys; ++key) {
    for (const GossipMessage& each : store.Read(static_cast<GossipKey>(key))) {
      if (each.node >= kNodes || each.version == 0 || each.bytes.size() > kMaxGossipBytes) {
        return false;
      }
      if (each.node == 0 && each.version != 1) return false;  // only this node may send for itself
    }
  }
  return true;
}

}  // namespace

std::vector<std::string> Corpus() {
  std::vector<std::string> all = {""};
  for (size_t bytes : {0u, 8u, 40u, 100u, 1024u}) {
    for (char how : {'\0', '\1'}) all.push_back(how + Spoken(bytes));
  }
  return all;
}

bool Target(const std::string& input) {
  if (input.empty()) return true;
  GossipStore store(kNodes, 0, 1);
  Gossip node(ConfigOf(0), &store);
  node.Admit(1, 1);
  store.Publish(GossipKey::kReport, std::vector<std::byte>(100));
  std::vector<OutGossip> room(4);
  std::string_view rest = std::string_view(input).substr(1);
  for (int64_t now = 0; !rest.empty(); now += 10'000'000) {
    const std::string_view text = rest.substr(0, kFrame);
    rest.remove_prefix(text.size());
    // An exact-size block, so that a sanitizer detects any read beyond it.
    std::vector<std::byte> frame(text.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), frame.begin());
    const auto repaired = Repaired(static_cast<uint8_t>(input[0]), frame);
    const std::unique_ptr<std::byte[]> block(new std::byte[repaired.size()]);
    std::copy(repaired.begin(), repaired.end(), block.get());
    if (!DecodesSafely({block.get(), repaired.size()})) return false;
    node.Receive(1, {block.get(), repaired.size()}, now);
    for (size_t i = 0, count = node.Send(room, now); i < count; ++i) {
      GossipHead head;
      std::span<const std::byte> part;
      if (room[i].frame().size() > kFrame) return false;
      if (DecodeGossip(room[i].frame(), &head, &part) != DropReason::kNone) return false;
    }
  }
  return AllWellFormed(store);
}

}  // namespace millrace::fuzz
