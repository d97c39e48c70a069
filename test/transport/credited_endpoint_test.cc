#include "transport/credited_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test/support/fake_clock.h"
#include "test/support/fake_link.h"

namespace millrace {
namespace {

// Frames to all of three peers, whose link accepts `room` frames.
class FannedOut : public testing::Test {
 protected:
  static constexpr size_t kPeers = 3, kFrames = 10;

  FannedOut() : texts_(kFrames) {
    CreditedPlan plan;
    plan.info.name = "full";
    plan.info.peers = {1, 2, 3};
    plan.info.max_frame_bytes = 64;
    plan.info.copies = true;
    plan.window_frames = 100;
    plan.receive_queue_frames = 1;
    plan.silence_ns = 1'000'000'000;
    plan.clock = &clock_;
    endpoint_ = std::make_unique<CreditedEndpoint>(
        std::make_unique<test::FakeLink>(wire_, NodeId{0}), plan);
    wire_->room = 0;
    wire_->seen = [this](NodeId, NodeId to, const Datagram& datagram) {
      if (datagram.kind != DatagramKind::kFrame) return;
      runs_ += to != last_;
      last_ = to;
    };
    for (size_t i = 0; i < kFrames; ++i) texts_[i] = "frame " + std::to_string(i);
  }
  std::vector<OutFrame> Frames() const {
    std::vector<OutFrame> frames;
    for (const std::string& text : texts_) {
      frames.push_back({kAllNodes, std::as_bytes(std::span(text.data(), text.size())), {}});
    }
    return frames;
  }
  void ExpectAllAtEveryPeer() {
    for (NodeId peer = 1; peer <= kPeers; ++peer) {
      size_t frames = 0;
      for (test::FakeWire::Letter letter; wire_->Take(peer, true, &letter);) {
        if (letter.datagram.kind != DatagramKind::kFrame) continue;
        const auto* const text = reinterpret_cast<const char*>(letter.view().data());
        EXPECT_EQ(std::string(text, letter.bytes), "frame " + std::to_string(frames++));
      }
      EXPECT_EQ(frames, kFrames) << peer;
    }
  }

  test::FakeClock clock_;
  const std::shared_ptr<test::FakeWire> wire_ = std::make_shared<test::FakeWire>(kPeers + 1);
  size_t runs_ = 0;  // changes from one peer to another
  NodeId last_ = 0;
  std::vector<std::string> texts_;
  std::unique_ptr<CreditedEndpoint> endpoint_;
};

TEST_F(FannedOut, FramesGoToOnePeerAfterTheOther) {
  wire_->room = 1000;
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, kFrames);
  EXPECT_EQ(runs_, kPeers);
  EXPECT_EQ(endpoint_->Reclaim(), kFrames);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesThatSomePeersHaveReachTheOthersWhenThereIsRoom) {
  wire_->room = kFrames + 3;
  const SendResult sent = endpoint_->Send(Frames());
  EXPECT_EQ(sent.accepted, kFrames);
  EXPECT_EQ(sent.status, SendStatus::kAccepted);
  // The caller owns the frames' memory again.
  for (std::string& text : texts_) text.assign(text.size(), 'x');
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, 0u);  // not before the earlier frames
  wire_->room = 9;
  EXPECT_EQ(endpoint_->Send(Frames()).status, SendStatus::kBusy);
  wire_->room = 1000;
  EXPECT_EQ(endpoint_->Send({}).status, SendStatus::kAccepted);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesAreNotTakenWhereThereIsNoRoomAtAll) {
  const SendResult sent = endpoint_->Send(Frames());
  EXPECT_EQ(sent.accepted, 0u);
  EXPECT_EQ(sent.status, SendStatus::kBusy);
  wire_->room = 1000;
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, kFrames);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesThatWereNotSentTakeNoRoomInTheWindow) {
  std::vector<OutFrame> frames = Frames();
  for (OutFrame& frame : frames) frame.to = 1;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(endpoint_->Send(frames).accepted, 0u);
  wire_->room = 1000;
  EXPECT_EQ(endpoint_->Send(frames).accepted, kFrames);
}

}  // namespace
}  // namespace millrace
