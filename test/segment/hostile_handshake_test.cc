// Effect of forged handshake messages on starting nodes: they are counted, and cause a delay at
// most.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "test/sim/handshake_cluster.h"
#include "test/sim/segment_cluster.h"
#include "test/support/fake_transport.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::KeyOf;
using sim::SegmentCluster;

constexpr int64_t kGiveUpMs = 10'000;

// Three nodes; node 2 receives forged handshake messages in the name of node 1.
class Forged : public SegmentCluster {
 public:
  explicit Forged(const NetSegmentConfig& config) : SegmentCluster(3, 1000, config) {
    const auto plain = connect;
    connect = [this, plain](int node) -> std::unique_ptr<Transport> {
      if (node != 2) return plain(node);
      return std::make_unique<test::FakeTransport>(
          plain(node), test::FakeTransportOptions{.forged = &frames, .forged_from = 1});
    };
  }
  std::deque<std::vector<std::byte>> frames;
};

// A message that anyone who knows the names of a run can make: nothing in it is authenticated.
std::vector<std::byte> ForgedBytes(bool keyed, uint8_t version = kHandshakeVersion) {
  HandshakeMessage in;
  in.keyed = keyed;
  in.run = 7;
  in.source = 1;
  in.incarnation = 1;
  in.name = "x";
  in.session_id[0] = std::byte{1};
  HandshakeBytes bytes;
  EncodeHandshake(in, &bytes);
  Put<uint8_t>(bytes.data(), 4, version);
  Put<uint32_t>(bytes.data(), 188, Crc32c({bytes.data(), 188}));
  return {bytes.begin(), bytes.end()};
}

NetSegmentConfig WithKey(char letter) {
  NetSegmentConfig config;
  if (letter != 0) {
    config.filter.key = std::make_shared<const SecretKey>(KeyOf(static_cast<uint8_t>(letter)));
  }
  return config;
}

struct Forgery {
  char key;  // of the segment; 0: none
  std::vector<std::byte> bytes;
  DropReason reason;
};
std::vector<Forgery> Forgeries() {
  return {{'k', ForgedBytes(false), DropReason::kNoKey},
          {'k', ForgedBytes(true), DropReason::kBadTag},
          {'k', ForgedBytes(true, 9), DropReason::kVersion},
          {'\0', ForgedBytes(true), DropReason::kForeignKey},
          {'\0', ForgedBytes(false, 9), DropReason::kVersion}};
}

TEST(HostileHandshake, OneForgedMessageDoesNotKeepAStartingNodeOut) {
  for (const Forgery& forgery : Forgeries()) {
    Forged segment(WithKey(forgery.key));
    segment.Start(0);
    segment.Start(1);
    segment.Run(3000);
    segment.frames.push_back(forgery.bytes);
    segment.Start(2);
    segment.Run(1000);
    EXPECT_EQ(segment.net(2).state().refusal(), "");
    EXPECT_TRUE(segment.net(2).state().in_sync());
    EXPECT_EQ(segment.net(0).state().members(), 3u);
  }
}

TEST(HostileHandshake, OneForgedMessageOnlyDelaysANodeThatIsAlone) {
  for (const Forgery& forgery : Forgeries()) {
    Forged segment(WithKey(forgery.key));
    segment.frames.push_back(forgery.bytes);
    segment.Start(2);
    segment.Run(kGiveUpMs - 100);
    EXPECT_EQ(segment.net(2).state().members(), 0u);
    segment.Run(2000);
    EXPECT_EQ(segment.net(2).state().refusal(), "");
    EXPECT_TRUE(segment.net(2).state().bootstrapped());
  }
}

TEST(HostileHandshake, AStreamOfForgedMessagesDoesNotEndANodeThatHasMetAnother) {
  for (const Forgery& forgery : Forgeries()) {
    Forged segment(WithKey(forgery.key));
    segment.Start(0);
    segment.Start(2);
    for (int i = 0; i < 300; ++i) {
      segment.frames.push_back(forgery.bytes);
      segment.Run(100);
    }
    EXPECT_EQ(segment.net(2).state().refusal(), "");
    EXPECT_TRUE(segment.net(2).state().in_sync());
    EXPECT_EQ(segment.net(2).state().members(), 2u);
  }
}

TEST(HostileHandshake, EveryMessageIsCountedByItsReason) {
  for (const Forgery& forgery : Forgeries()) {
    Forged segment(WithKey(forgery.key));
    segment.Start(0);
    segment.Start(2);
    segment.Run(3000);
    const SegmentMetrics& metrics = segment.net(2).metrics();
    const uint64_t before = metrics.dropped(DropComponent::kHandshake);
    constexpr int kMany = 10'000;
    segment.frames.assign(kMany, forgery.bytes);
    segment.Run(3000);
    ASSERT_TRUE(segment.frames.empty());
    EXPECT_EQ(metrics.dropped(DropComponent::kHandshake), before + kMany);
    EXPECT_EQ(metrics.dropped(DropComponent::kHandshake, forgery.reason), kMany);
    const std::string total = SummaryOf(metrics);
    EXPECT_CONTAINS(total, StrCat(" handshake_", DropReasonName(forgery.reason), " ", kMany));
    std::map<std::string, double> numbers;  // of the counter file and the metrics file
    double all = 0;
    const MetricsReading reading = metrics.registry().Read();
    for (const MetricsReading::Metric& each : reading.metrics) {
      numbers[reading.NumberOf(each) + each.detail] = each.value;
      if (each.detail.starts_with(".handshake.")) all += each.value;
    }
    EXPECT_EQ(all, static_cast<double>(before + kMany));
    EXPECT_EQ(numbers.at(StrCat("frames_dropped.handshake.", DropReasonName(forgery.reason))),
              kMany);
    EXPECT_EQ(segment.net(2).state().members(), 2u);
  }
}

TEST(HostileHandshake, MessagesAreCountedWhileTheNodeIsHeldBack) {
  Forged segment(WithKey('k'));
  segment.Start(2);
  segment.frames.assign(5, ForgedBytes(false));
  segment.Run(100);
  EXPECT_EQ(segment.net(2).state().members(), 0u);
  EXPECT_EQ(segment.net(2).metrics().dropped(DropComponent::kHandshake, DropReason::kNoKey), 5u);
}

// One of three nodes is misconfigured and starts first.
TEST(HostileHandshake, AMisconfiguredNodeDoesNotEndThoseThatAreAlike) {
  for (const char key : {'\0', 'k'}) {
    SegmentCluster segment(3, 1000, WithKey(key));
    segment.StartOther(
        1, [](NetSegmentConfig* config) { config->filter.handshake.settings.topology_digest = 1; });
    segment.Start(0);
    segment.Run(500);  // nodes 0 and 1 detect the mismatch
    segment.Start(2);
    segment.Run(3000);
    for (const int node : {0, 2}) {
      EXPECT_EQ(segment.net(node).state().refusal(), "");
      EXPECT_EQ(segment.net(node).state().members(), 2u);
    }
    segment.Run(kGiveUpMs);
    EXPECT_EQ(segment.net(1).state().members(), 0u);
    EXPECT_CONTAINS(segment.net(1).state().refusal(), " has another topology file");
    EXPECT_CONTAINS(segment.net(1).state().refusal(), "equal settings was found for 10 s");
  }
}

// A wrong key differs from forged messages only in that no node with the same key is met.
TEST(HostileHandshake, ANodeWithAnotherKeyBeginsNoRunAndEndsWithTheReason) {
  SegmentCluster segment(3, 1000, WithKey('k'));
  segment.Start(0);
  segment.Start(1);
  segment.Run(3000);
  segment.StartOther(
      2, [](NetSegmentConfig* config) { config->filter.key = WithKey('x').filter.key; });
  segment.Run(kGiveUpMs - 100);
  EXPECT_EQ(segment.net(2).state().refusal(), "");
  EXPECT_EQ(segment.net(2).state().members(), 0u);
  segment.Run(2000);
  EXPECT_CONTAINS(segment.net(2).state().refusal(), " uses another key; no node");
  EXPECT_EQ(segment.net(2).state().members(), 0u);
  EXPECT_EQ(segment.net(0).state().members(), 2u);
}

TEST(HostileHandshake, ANodeThatIsHeldBackLeavesAtOnce) {
  Forged segment(WithKey('k'));
  segment.frames.push_back(ForgedBytes(false));
  segment.Start(2);
  segment.Run(100);
  segment.net(2).state().RequestLeave();
  segment.Run(10);
  EXPECT_TRUE(segment.net(2).state().left());
}

}  // namespace
}  // namespace millrace
