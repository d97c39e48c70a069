#include "transport/credited_endpoint.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"

namespace millrace {
namespace {

// A link without a network, whose queue accepts `room` frames.
class FullLink : public DatagramLink {
 public:
  // Frames that were accepted, by peer; `runs` counts the changes from one peer to another.
  struct Passed {
    size_t room = 0;
    std::map<size_t, std::vector<std::string>> frames;
    size_t runs = 0, last_peer = SIZE_MAX;
  };

  explicit FullLink(Passed* passed) : passed_(*passed) {}
  void Add(size_t peer, uint16_t, uint32_t, const OutFrame& frame) override {
    std::string bytes(frame.bytes(), 0);
    frame.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
    added_.push_back({peer, bytes});
  }
  Flushed Flush() override {
    Flushed flushed;
    for (const auto& [peer, bytes] : added_) {
      if (passed_.room == 0) {
        flushed.busy = true;
        break;
      }
      --passed_.room;
      passed_.frames[peer].push_back(bytes);
      passed_.runs += peer != passed_.last_peer;
      passed_.last_peer = peer;
      ++flushed.frames;
      flushed.bytes += bytes.size();
    }
    added_.clear();
    return flushed;
  }
  bool SendCredit(size_t, const ControlMessage&) override { return true; }
  bool SendProbe(size_t, const ControlMessage&, bool) override { return true; }
  bool Read(Sink*) override { return false; }
  void GiveBack(uint64_t) override {}
  uint64_t head() const override { return 0; }
  Polled Poll(int, int64_t, bool) override { return {}; }

 private:
  Passed& passed_;
  std::vector<std::pair<size_t, std::string>> added_;
};

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
    endpoint_ = std::make_unique<CreditedEndpoint>(std::make_unique<FullLink>(&passed_), plan);
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
    for (size_t peer = 0; peer < kPeers; ++peer) {
      ASSERT_EQ(passed_.frames[peer].size(), kFrames) << peer;
      for (size_t i = 0; i < kFrames; ++i) {
        EXPECT_EQ(passed_.frames[peer][i], "frame " + std::to_string(i));
      }
    }
  }

  ManualClock clock_;
  FullLink::Passed passed_;
  std::vector<std::string> texts_;
  std::unique_ptr<CreditedEndpoint> endpoint_;
};

TEST_F(FannedOut, FramesGoToOnePeerAfterTheOther) {
  passed_.room = 1000;
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, kFrames);
  EXPECT_EQ(passed_.runs, kPeers);
  EXPECT_EQ(endpoint_->Reclaim(), kFrames);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesThatSomePeersHaveReachTheOthersWhenThereIsRoom) {
  passed_.room = kFrames + 3;
  const SendResult sent = endpoint_->Send(Frames());
  EXPECT_EQ(sent.accepted, kFrames);
  EXPECT_EQ(sent.status, SendStatus::kAccepted);
  // The caller owns the frames' memory again.
  for (std::string& text : texts_) text.assign(text.size(), 'x');
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, 0u);  // not before the earlier frames
  passed_.room = 9;
  EXPECT_EQ(endpoint_->Send(Frames()).status, SendStatus::kBusy);
  passed_.room = 1000;
  EXPECT_EQ(endpoint_->Send({}).status, SendStatus::kAccepted);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesAreNotTakenWhereThereIsNoRoomAtAll) {
  const SendResult sent = endpoint_->Send(Frames());
  EXPECT_EQ(sent.accepted, 0u);
  EXPECT_EQ(sent.status, SendStatus::kBusy);
  passed_.room = 1000;
  EXPECT_EQ(endpoint_->Send(Frames()).accepted, kFrames);
  ExpectAllAtEveryPeer();
}

TEST_F(FannedOut, FramesThatWereNotSentTakeNoRoomInTheWindow) {
  std::vector<OutFrame> frames = Frames();
  for (OutFrame& frame : frames) frame.to = 1;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(endpoint_->Send(frames).accepted, 0u);
  passed_.room = 1000;
  EXPECT_EQ(endpoint_->Send(frames).accepted, kFrames);
}

}  // namespace
}  // namespace millrace
