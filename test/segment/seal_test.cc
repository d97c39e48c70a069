#include "segment/auth/frame_auth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/key_file.h"
#include "test/segment/meeting.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::byte>;
using test::KeyOf;
using test::kRun;

constexpr Nonce kLife = {std::byte{1}}, kNextLife = {std::byte{2}};
constexpr size_t kPayload = 100;

// A frame of `source`, sealed; the payload says `content`.
Bytes Sealed(Sealer* sealer, NodeId source, uint8_t content = 7, size_t payload_bytes = kPayload) {
  Bytes frame(kFrameHeaderBytes + payload_bytes + kSealBytes);
  const std::span all(frame);
  FrameHeader header;
  header.source = source;
  header.length = static_cast<uint32_t>(payload_bytes);
  const auto payload = all.subspan(kFrameHeaderBytes, payload_bytes);
  std::fill(payload.begin(), payload.end(), std::byte{content});
  EncodeFrame(header, {}, payload, all);
  sealer->Seal(all.first(kFrameHeaderBytes), payload, all.last<kSealBytes>());
  return frame;
}

class Seal : public testing::Test {
 protected:
  Seal() { opener.Admit(1, kLife); }
  OpenResult Open(const Bytes& frame) { return opener.Open(frame).result; }
  uint64_t Count(OpenResult result) const { return opener.counts()[static_cast<size_t>(result)]; }

  const SecretKey key = KeyOf(1);
  Sealer sealer{key, kRun, 1, kLife};
  Opener opener{key, kRun, 4};
};

TEST_F(Seal, AFrameIsOpenedAsItWasSealed) {
  for (size_t bytes : {0, 1, 12, 1400, 8896}) {
    const Bytes frame = Sealed(&sealer, 1, 9, bytes);
    const Opened opened = opener.Open(frame);
    ASSERT_EQ(opened.result, OpenResult::kOpened);
    EXPECT_EQ(opened.frame.data(), frame.data());
    EXPECT_EQ(opened.frame.size(), frame.size() - kSealBytes);
    FrameView view;
    EXPECT_EQ(DecodeFrame(opened.frame, &view), Drop::kNone);
    EXPECT_EQ(view.payload.size(), bytes);
  }
  EXPECT_EQ(Count(OpenResult::kOpened), 5u);
}

TEST_F(Seal, AHeaderAndAPayloadAreSealedAsTheOnePieceThatArrives) {
  Bytes frame = Sealed(&sealer, 1);
  Sealer again(key, kRun, 1, kLife);
  Bytes trailer(kSealBytes);
  again.Seal(std::span(frame).first(kFrameHeaderBytes + kPayload), {},
             std::span(trailer).first<kSealBytes>());
  EXPECT_EQ(Bytes(frame.end() - kSealBytes, frame.end()), trailer);
}

TEST_F(Seal, AnyFlippedBitIsRefused) {
  const Bytes good = Sealed(&sealer, 1);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes frame = good;
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Open(frame), OpenResult::kOpened) << bit;
  }
  EXPECT_EQ(Open(good), OpenResult::kOpened);  // no forgery has used up its number
}

TEST_F(Seal, FramesOfOtherLengthsAreRefused) {
  const Bytes good = Sealed(&sealer, 1);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(Open(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))),
              OpenResult::kOpened);
  }
  EXPECT_EQ(Count(OpenResult::kShort), kFrameHeaderBytes + kSealBytes);
  Bytes longer = good;
  longer.insert(longer.begin() + kFrameHeaderBytes, std::byte{0});
  EXPECT_EQ(Open(longer), OpenResult::kTag);
}

TEST_F(Seal, OnlyTheAdmittedLifeOfTheSenderInThisRunWithThisKeyIsOpened) {
  Sealer other_life(key, kRun, 1, kNextLife), other_run(key, kRun + 1, 1, kLife);
  Sealer other_node(key, kRun, 2, kLife), other_key(KeyOf(2), kRun, 1, kLife);
  for (Sealer* wrong : {&other_life, &other_run, &other_node, &other_key}) {
    EXPECT_EQ(Open(Sealed(wrong, 1)), OpenResult::kTag);
  }
  EXPECT_EQ(Open(Sealed(&other_node, 2)), OpenResult::kStranger);
  EXPECT_EQ(Open(Sealed(&sealer, 9)), OpenResult::kStranger);
  EXPECT_EQ(Open(Sealed(&sealer, 0xffff)), OpenResult::kStranger);
  EXPECT_EQ(Open(Sealed(&sealer, 1)), OpenResult::kOpened);
  EXPECT_EQ(Count(OpenResult::kTag), 4u);
  EXPECT_EQ(Count(OpenResult::kStranger), 3u);
}

TEST_F(Seal, FramesOfAnEarlierLifeAreNotOpenedOnceTheNextIsAdmitted) {
  const Bytes recorded = Sealed(&sealer, 1), kept = Sealed(&sealer, 1);
  EXPECT_EQ(Open(recorded), OpenResult::kOpened);
  opener.Admit(1, kNextLife);
  EXPECT_EQ(Open(recorded), OpenResult::kTag);
  EXPECT_EQ(Open(kept), OpenResult::kTag);
  Sealer next(key, kRun, 1, kNextLife);
  EXPECT_EQ(Open(Sealed(&next, 1)), OpenResult::kOpened);
}

TEST_F(Seal, ARepeatIsRefusedAlsoWhenTheLifeIsAdmittedAgain) {
  const Bytes frame = Sealed(&sealer, 1);
  EXPECT_EQ(Open(frame), OpenResult::kOpened);
  EXPECT_EQ(Open(frame), OpenResult::kRepeated);
  opener.Admit(1, kLife);
  EXPECT_EQ(Open(frame), OpenResult::kRepeated);
  EXPECT_EQ(Count(OpenResult::kRepeated), 2u);
}

TEST_F(Seal, TheWindowEndsAfter4096Frames) {
  std::vector<Bytes> frames;
  for (int i = 0; i < 4098; ++i) frames.push_back(Sealed(&sealer, 1, 7, 0));
  EXPECT_EQ(Open(frames[4096]), OpenResult::kOpened);  // number 4097
  EXPECT_EQ(Open(frames[0]), OpenResult::kOld);        // 1: 4096 behind
  EXPECT_EQ(Open(frames[1]), OpenResult::kOpened);     // 2: 4095 behind
  EXPECT_EQ(Open(frames[1]), OpenResult::kRepeated);
  EXPECT_EQ(Open(frames[4097]), OpenResult::kOpened);  // 4098
  EXPECT_EQ(Open(frames[1]), OpenResult::kOld);
  EXPECT_EQ(Open(frames[2]), OpenResult::kOpened);
  EXPECT_EQ(Open(frames[4096]), OpenResult::kRepeated);
  EXPECT_EQ(Count(OpenResult::kOld), 2u);
}

TEST_F(Seal, EveryFrameIsSealedDifferently) {
  std::set<Bytes> trailers;
  for (int i = 0; i < 100; ++i) {
    const Bytes frame = Sealed(&sealer, 1);
    trailers.insert(Bytes(frame.end() - kSealBytes, frame.end()));
  }
  EXPECT_EQ(trailers.size(), 100u);
  EXPECT_EQ(sealer.sealed(), 100u);
}

TEST_F(Seal, ANodeThatHasIntroducedItselfIsOpened) {
  test::Meeting meeting(2);
  meeting.StartAll(&key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  Opener at_a(key, kRun, 2);
  Sealer at_b(key, kRun, 1, meeting.node(1).life());
  const Bytes early = Sealed(&at_b, 1);
  EXPECT_EQ(at_a.Open(early).result, OpenResult::kStranger);
  for (Introduced peer; meeting.node(0).NextIntroduced(&peer);) at_a.Admit(peer.node, peer.life);
  EXPECT_EQ(at_a.Open(early).result, OpenResult::kOpened);
}

// ---- The window by itself. ----------------------------------------------------

TEST(ReplayWindow, AgreesWithASetOfNumbers) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(test::Seed(), {79, seed});
    ReplayWindow window;
    std::set<uint64_t> seen;
    uint64_t newest = 0;
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t jump = rng.Below(50) == 0 ? 10'000 : 40;
      const uint64_t reach = rng.Below(2) == 0 ? rng.Below(5'000) : rng.Below(64);
      const uint64_t ahead = newest + rng.Below(jump);
      const uint64_t number = ahead > reach ? ahead - reach : 0;
      const bool old = number == 0 || (newest >= 4096 && number <= newest - 4096);
      ASSERT_EQ(window.Old(number), old) << number << " newest " << newest;
      if (old) continue;
      ASSERT_EQ(window.Seen(number), seen.count(number) > 0) << number << " newest " << newest;
      window.Mark(number);
      seen.insert(number);
      newest = std::max(newest, number);
    }
  }
}

TEST(ReplayWindow, HoldsUpToTheLargestNumber) {
  ReplayWindow window;
  EXPECT_TRUE(window.Old(0));
  window.Mark(1);
  window.Mark(UINT64_MAX);
  EXPECT_TRUE(window.Seen(UINT64_MAX));
  EXPECT_TRUE(window.Old(1));
  EXPECT_TRUE(window.Old(0));
  EXPECT_TRUE(window.Old(UINT64_MAX - 4096));
  EXPECT_FALSE(window.Old(UINT64_MAX - 4095));
  EXPECT_FALSE(window.Seen(UINT64_MAX - 4095));
}

// ---- What the library computes. -----------------------------------------------

Bytes FromHex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(std::byte(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

SecretKey KeyFrom(const std::string& hex) {
  SecretKey key;
  const Bytes bytes = FromHex(hex);
  std::copy(bytes.begin(), bytes.end(), key.bytes().begin());
  return key;
}

// Test case 13 of "The Galois/Counter Mode of Operation" (McGrew, Viega): AES-256, all
// zeros, no text. The nonce of number 0 is all zeros too.
TEST(Tags, NumberedTagsAreGcm) {
  NumberedTagger tagger(KeyFrom(std::string(64, '0')));
  Tag tag;
  tagger.Make(0, {}, {}, tag);
  EXPECT_EQ(Bytes(tag.begin(), tag.end()), FromHex("530f8afbc74536b9a963b4f1c4cb738b"));
}

// RFC 4231, test case 1, whose key of 20 bytes HMAC fills up with zeros.
TEST(Tags, MessageTagsAreHmacSha256) {
  std::string key;
  for (int i = 0; i < 20; ++i) key += "0b";
  MessageTagger tagger(KeyFrom(key + std::string(24, '0')));
  for (int i = 0; i < 2; ++i) {  // and again under the same key
    Tag tag;
    tagger.Make(FromHex("4869205468657265"), tag);
    EXPECT_EQ(Bytes(tag.begin(), tag.end()), FromHex("b0344c61d8db38535ca8afceaf0bf12b"));
  }
}

TEST(Tags, TheSystemsRandomBytesAreDrawnAnewEachTime) {
  std::set<Nonce> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(DrawNonce(SystemRandom));
  EXPECT_EQ(drawn.size(), 100u);
  EXPECT_EQ(drawn.count(kNoNonce), 0u);
}

TEST(Tags, AKeyThatWentIsWiped) {
  alignas(SecretKey) std::byte memory[sizeof(SecretKey)];
  auto* key = new (memory) SecretKey(KeyOf(3));
  EXPECT_EQ(memory[0], std::byte{3});
  SecretKey moved(std::move(*key));
  EXPECT_EQ(std::accumulate(std::begin(memory), std::end(memory), 0,
                            [](int sum, std::byte b) { return sum + int(b); }),
            0);
  EXPECT_EQ(moved.bytes()[31], std::byte{3});
  key->~SecretKey();
}

}  // namespace
}  // namespace millrace
