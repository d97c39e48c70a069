#include "cluster/peer_failures.h"

#include <gtest/gtest.h>

#include "proto/gossip.pb.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// What node a receives from b, c and d.
class PeerFailuresTest : public testing::Test {
 protected:
  void Say(NodeId node, uint32_t incarnation, const RunEnd& end) {
    const std::string text = end.SerializeAsString();
    gossip_.Publish(node, std::as_bytes(std::span(text)), incarnation, GossipKey::kEnd);
  }
  static RunEnd Failed(const std::string& error, bool not_finite) {
    RunEnd end;
    end.set_gone(true);
    end.set_failure(error);
    end.set_not_finite(not_finite);
    return end;
  }

  // The end of a completed schedule.
  static RunEnd Complete() {
    RunEnd end;
    end.set_weights(1);
    return end;
  }

  sim::GossipBoard gossip_;
  sim::FakePeers peers_{0, &gossip_};
  PeerFailures failures_{&peers_, {"a", "b", "c", "d"}};
};

TEST_F(PeerFailuresTest, AreLoggedOnceForEachIncarnation) {
  EXPECT_TRUE(failures_.TakeNew().empty());
  Say(1, 7, Failed("no data", false));
  Say(2, 7, RunEnd());
  EXPECT_EQ(failures_.TakeNew(), std::vector<std::string>{"node b has failed: no data"});
  EXPECT_TRUE(failures_.TakeNew().empty());
  Say(1, 8, Failed("still no data", false));
  EXPECT_EQ(failures_.TakeNew(), std::vector<std::string>{"node b has failed: still no data"});
  Say(1, 7, Failed("no data", false));  // from an old incarnation
  EXPECT_TRUE(failures_.TakeNew().empty());
  EXPECT_EQ(failures_.NotFinite(), "");
}

TEST_F(PeerFailuresTest, NameThoseWhoseLossWasNotFiniteAtTheEnd) {
  Say(1, 7, Failed("iteration 5: the loss is not finite", true));
  failures_.TakeNew();
  EXPECT_EQ(failures_.NotFinite().find("node b ended with a loss that is not finite"), 0u);
  Say(2, 7, Failed("iteration 6: the loss is not finite", true));
  Say(3, 7, Failed("no data", false));
  EXPECT_EQ(failures_.TakeNew().size(), 2u);
  EXPECT_EQ(failures_.NotFinite().find("nodes b, c ended with a loss that is not finite"), 0u);
  EXPECT_CONTAINS(failures_.NotFinite(), "the model may not be usable");
}

TEST_F(PeerFailuresTest, AreForgottenWhereANodeComesToTheEndLater) {
  Say(1, 7, Failed("the loss is not finite", true));
  failures_.TakeNew();
  gossip_.Clear();  // nothing is known about a restarted node until it sends a message
  EXPECT_TRUE(failures_.TakeNew().empty());
  EXPECT_NE(failures_.NotFinite(), "");
  Say(1, 7, Complete());  // not the end of a later incarnation
  failures_.TakeNew();
  EXPECT_NE(failures_.NotFinite(), "");
  Say(1, 8, Complete());
  failures_.TakeNew();
  EXPECT_EQ(failures_.NotFinite(), "");
  Say(1, 8, Failed("no space left", false));  // after its last iteration
  EXPECT_EQ(failures_.TakeNew(), std::vector<std::string>{"node b has failed: no space left"});
}

TEST_F(PeerFailuresTest, StayWhereTheNodeIsOnlyStoppedLater) {
  Say(1, 7, Failed("the loss is not finite", true));
  failures_.TakeNew();
  RunEnd training;
  training.set_iteration_ns(1);
  Say(1, 8, training);
  failures_.TakeNew();
  RunEnd stopped;
  stopped.set_priority(1);
  Say(1, 8, stopped);
  failures_.TakeNew();
  RunEnd gone;
  gone.set_gone(true);
  Say(1, 8, gone);
  failures_.TakeNew();
  EXPECT_EQ(failures_.NotFinite().find("node b ended with a loss that is not finite"), 0u);
}

// Node b had died before this node joined.
TEST_F(PeerFailuresTest, AreKnownFromTheLeaderWhereTheNodeIsGone) {
  RunEnd leader;
  leader.set_iteration_ns(0);
  FailedPeer* const peer = leader.add_failed_peer();
  peer->set_node(1);
  peer->set_incarnation(7);
  Say(2, 3, leader);
  EXPECT_EQ(
      failures_.TakeNew(),
      std::vector<std::string>{"node b has failed: the loss is not finite (node c reports it)"});
  EXPECT_EQ(failures_.AllNotFinite(), (std::vector<std::pair<NodeId, uint32_t>>{{1, 7}}));
  EXPECT_NE(failures_.NotFinite(), "");
  Say(1, 7, Failed("iteration 5: the loss is not finite", true));
  EXPECT_TRUE(failures_.TakeNew().empty());
  Say(1, 8, Complete());  // an outdated report does not bring it back
  EXPECT_TRUE(failures_.TakeNew().empty());
  EXPECT_EQ(failures_.NotFinite(), "");
  peer->set_node(0);  // this node
  peer->set_incarnation(9);
  Say(2, 3, leader);
  EXPECT_TRUE(failures_.TakeNew().empty());
}

TEST_F(PeerFailuresTest, OfThisNodeAreItsOwnBusiness) {
  Say(0, 7, Failed("the loss is not finite", true));
  EXPECT_TRUE(failures_.TakeNew().empty());
  EXPECT_EQ(failures_.NotFinite(), "");
}

// The report is one short printable line for any content of a message.
TEST_F(PeerFailuresTest, AreOneShortPrintableLine) {
  Say(1, 7, Failed("a\033[2J\nb", false));
  Say(2, 7, Failed(std::string(5000, '\xff'), false));
  Say(9, 7, Failed("", false));
  gossip_.Publish(3, std::vector<std::byte>(9, std::byte{0xff}), 7, GossipKey::kEnd);
  EXPECT_EQ(failures_.TakeNew(),
            (std::vector<std::string>{"node b has failed: a?[2J",
                                      "node c has failed: " + std::string(200, '?'),
                                      "node #9 has failed: "}));
}

TEST(FailureText, IsTheFirstLineCutBetweenTwoCharacters) {
  EXPECT_EQ(FailureText("one\ntwo"), "one");
  EXPECT_EQ(FailureText(std::string(199, 'x') + "\u00e9"), std::string(199, 'x'));
  EXPECT_EQ(FailureText(std::string(300, 'x')).size(), kMaxFailureBytes);
}

}  // namespace
}  // namespace millrace
