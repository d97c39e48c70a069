#include "segment/handshake/frame_filter.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "exchange/protocol/frame.h"
#include "segment/segment_metrics.h"
#include "test/sim/handshake_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::byte>;

FrameFilterConfig ConfigFor(NodeId node, uint64_t session_id, char key) {
  FrameFilterConfig config;
  config.handshake = sim::ConfigOf(node, 3, static_cast<uint32_t>(session_id));
  if (key != 0) {
    config.key = std::make_shared<const SecretKey>(sim::KeyOf(static_cast<uint8_t>(key)));
  }
  config.random = sim::SeededRandom(node, session_id);
  return config;
}

// A frame of `source` as it leaves an outbox, with room for the frame tag after the payload.
struct Leaving {
  Leaving(NodeId source, FrameFilter* filter) : payload(40 + kFrameTagBytes, std::byte{7}) {
    FrameHeader header;
    header.type = FrameType::kPosition;
    header.run = sim::kRun;
    header.source = source;
    header.length = 40;
    head.resize(kFrameHeaderBytes);
    EncodeFrame(header, {}, {payload.data(), 40}, head);
    frame = {kAllNodes, head, {payload.data(), 40}, {payload.data() + 40, payload.size() - 40}, 0};
    filter->Sign(&frame);
  }
  Bytes OnTheWire() const {
    Bytes bytes(frame.head.begin(), frame.head.end());
    bytes.insert(bytes.end(), frame.payload.begin(), frame.payload.end());
    return bytes;
  }

  Bytes head, payload;
  PostedFrame frame;
};

// Exchanges handshake messages for five seconds.
void Establish(FrameFilter* a, NodeId a_id, FrameFilter* b, NodeId b_id, int64_t begin = 0) {
  for (int64_t now = begin; now < begin + 5'000 * sim::kMs; now += 50 * sim::kMs) {
    for (const auto& [from, from_id, to, to_id] :
         {std::tuple(a, a_id, b, b_id), std::tuple(b, b_id, a, a_id)}) {
      std::vector<OutHandshake> room(8);
      const size_t count = from->handshake().Send(room, now);
      for (size_t i = 0; i < count; ++i) {
        if (room[i].to == to_id || room[i].to == kAllNodes)
          to->Enter({from_id, room[i].bytes}, now);
      }
    }
  }
}

uint64_t Drops(const FrameFilter& filter, DropReason drop) { return filter.drops()[drop]; }

TEST(FrameFilter, AcceptsFramesOfEstablishedNodesOnly) {
  for (char key : {'\0', 'k'}) {
    FrameFilter a(ConfigFor(0, 1, key)), b(ConfigFor(1, 1, key));
    const Bytes early = Leaving(1, &b).OnTheWire();
    EXPECT_FALSE(a.Enter({1, early}, 0));
    EXPECT_EQ(Drops(a, DropReason::kNoSession), 1u);
    Establish(&a, 0, &b, 1);
    const Bytes sent = Leaving(1, &b).OnTheWire();
    EXPECT_EQ(sent.size(), kFrameHeaderBytes + 40 + (key ? kFrameTagBytes : 0));
    const auto entered = a.Enter({1, sent}, 0);
    ASSERT_TRUE(entered);
    EXPECT_EQ(entered->size(), kFrameHeaderBytes + 40);
    EXPECT_EQ((*entered)[kFrameHeaderBytes], std::byte{7});
    // A frame with a false source, and a frame of a node without a session.
    EXPECT_FALSE(a.Enter({2, sent}, 0));
    EXPECT_EQ(Drops(a, DropReason::kSourceMismatch), 1u);
    FrameFilter stranger(ConfigFor(2, 1, key));
    EXPECT_FALSE(a.Enter({2, Leaving(2, &stranger).OnTheWire()}, 0));
    EXPECT_EQ(Drops(a, DropReason::kNoSession), 2u);
    EXPECT_EQ(a.drops_of(1), 1u);  // the frame before the handshake
    EXPECT_EQ(a.drops_of(2), 2u);
    const PeerMetrics exchange(3, 1);
    MetricsRegistry registry;
    const std::vector<std::string> names = {"a", "b", "c"};
    SegmentMetrics metrics(&registry, "lan", &exchange, {1, 2}, names);
    metrics.Publish(a);
    EXPECT_EQ(metrics.dropped(DropComponent::kFilter), 3u);
    EXPECT_EQ(registry.Read().Value("peer b on lan", "frames_dropped"), 1);
    EXPECT_EQ(registry.Read().Value("peer c on lan", "frames_dropped"), 2);
    EXPECT_EQ(a.refusal(), "");
  }
}

TEST(FrameFilter, WithAKeyDropsAlteredAndReplayedFramesAndThoseOfEarlierSessions) {
  FrameFilter a(ConfigFor(0, 1, 'k'));
  auto b = std::make_unique<FrameFilter>(ConfigFor(1, 1, 'k'));
  Establish(&a, 0, b.get(), 1);
  const Bytes sent = Leaving(1, b.get()).OnTheWire();
  for (size_t at = 0; at < sent.size(); ++at) {
    Bytes altered = sent;
    altered[at] ^= std::byte{1};
    EXPECT_FALSE(a.Enter({1, altered}, 0)) << at;
  }
  EXPECT_GT(Drops(a, DropReason::kBadTag), 0u);
  EXPECT_FALSE(a.Enter({1, Bytes(sent.begin(), sent.end() - kFrameTagBytes)}, 0));
  ASSERT_TRUE(a.Enter({1, sent}, 0));
  const uint64_t before = Drops(a, DropReason::kReplayed);
  EXPECT_FALSE(a.Enter({1, sent}, 0));
  EXPECT_EQ(Drops(a, DropReason::kReplayed), before + 1);
  const Bytes unused = Leaving(1, b.get()).OnTheWire();
  b = std::make_unique<FrameFilter>(ConfigFor(1, 2, 'k'));
  Establish(&a, 0, b.get(), 1);
  EXPECT_FALSE(a.Enter({1, unused}, 0));
  EXPECT_TRUE(a.Enter({1, Leaving(1, b.get()).OnTheWire()}, 0));
}

TEST(FrameFilter, SignsWithANewKeyAfterItHasTakenALaterIncarnation) {
  FrameFilter a(ConfigFor(0, 1, 'k')), earlier(ConfigFor(1, 7, 'k'));
  Establish(&a, 0, &earlier, 1);
  FrameFilter b(ConfigFor(1, 5, 'k'));
  const Nonce session_id = b.handshake().session_id();
  const Bytes before = Leaving(1, &b).OnTheWire();
  Establish(&a, 0, &b, 1, 5'000 * sim::kMs);
  EXPECT_EQ(b.handshake().incarnation(), 8u);
  EXPECT_NE(b.handshake().session_id(), session_id);
  EXPECT_FALSE(a.Enter({1, before}, 0));
  EXPECT_TRUE(a.Enter({1, Leaving(1, &b).OnTheWire()}, 0));
}

TEST(FrameFilter, SaysWhyItRefuses) {
  FrameFilterConfig other = ConfigFor(1, 1, '\0');
  other.handshake.settings.parameters += 5;
  FrameFilter a(ConfigFor(0, 1, '\0')), b(other);
  Establish(&a, 0, &b, 1);
  const int64_t now = 5'000 * sim::kMs;
  EXPECT_EQ(a.Verdict(now), JoinVerdict::kWait);
  EXPECT_EQ(a.refusal(), "");
  Establish(&a, 0, &b, 1, now);
  Establish(&a, 0, &b, 1, 2 * now);
  EXPECT_EQ(a.Verdict(3 * now), JoinVerdict::kGiveUp);
  EXPECT_EQ(b.Verdict(3 * now), JoinVerdict::kGiveUp);
  EXPECT_EQ(
      a.refusal(),
      "node b has another net: 430505 parameters, here 430500; no node with equal settings was "
      "found for 10 s");
  EXPECT_CONTAINS(b.refusal(), "node a has another net");
  EXPECT_EQ(a.Verdict(100 * now), JoinVerdict::kGiveUp);  // the verdict is final
  EXPECT_FALSE(a.Enter({1, Leaving(1, &b).OnTheWire()}, 0));
}

}  // namespace
}  // namespace millrace
