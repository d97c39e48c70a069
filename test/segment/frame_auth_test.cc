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
#include "test/sim/handshake_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::byte>;
using sim::KeyOf;
using sim::kRun;

constexpr Nonce kSession = {std::byte{1}}, kNextSession = {std::byte{2}};
constexpr size_t kPayload = 100;

// A signed frame of `source`; all bytes of the payload are `content`.
Bytes Signed(FrameSigner* signer, NodeId source, uint8_t content = 7,
             size_t payload_bytes = kPayload) {
  Bytes frame(kFrameHeaderBytes + payload_bytes + kFrameTagBytes);
  const std::span all(frame);
  FrameHeader header;
  header.source = source;
  header.length = static_cast<uint32_t>(payload_bytes);
  const auto payload = all.subspan(kFrameHeaderBytes, payload_bytes);
  std::fill(payload.begin(), payload.end(), std::byte{content});
  EncodeFrame(header, {}, payload, all);
  signer->Sign(all.first(kFrameHeaderBytes), payload, all.last<kFrameTagBytes>());
  return frame;
}

class FrameAuthentication : public testing::Test {
 protected:
  FrameAuthentication() { verifier.Admit(1, kSession); }
  VerifyResult Verify(const Bytes& frame) { return verifier.Verify(frame).result; }

  const SecretKey key = KeyOf(1);
  FrameSigner signer{key, kRun, 1, kSession};
  FrameVerifier verifier{key, kRun, 4};
};

TEST_F(FrameAuthentication, AFrameIsVerifiedAsItWasSigned) {
  for (size_t bytes : {0, 1, 12, 1400, 8896}) {
    const Bytes frame = Signed(&signer, 1, 9, bytes);
    const Verified opened = verifier.Verify(frame);
    ASSERT_EQ(opened.result, VerifyResult::kVerified);
    EXPECT_EQ(opened.frame.data(), frame.data());
    EXPECT_EQ(opened.frame.size(), frame.size() - kFrameTagBytes);
    FrameView view;
    EXPECT_EQ(DecodeFrame(opened.frame, &view), DropReason::kNone);
    EXPECT_EQ(view.payload.size(), bytes);
  }
}

TEST_F(FrameAuthentication, AHeaderAndAPayloadAreSignedAsTheOnePieceThatArrives) {
  Bytes frame = Signed(&signer, 1);
  FrameSigner again(key, kRun, 1, kSession);
  Bytes trailer(kFrameTagBytes);
  again.Sign(std::span(frame).first(kFrameHeaderBytes + kPayload), {},
             std::span(trailer).first<kFrameTagBytes>());
  EXPECT_EQ(Bytes(frame.end() - kFrameTagBytes, frame.end()), trailer);
}

TEST_F(FrameAuthentication, AnyFlippedBitIsRefused) {
  const Bytes good = Signed(&signer, 1);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes frame = good;
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Verify(frame), VerifyResult::kVerified) << bit;
  }
  EXPECT_EQ(Verify(good), VerifyResult::kVerified);  // no forgery has marked its number as received
}

TEST_F(FrameAuthentication, FramesOfOtherLengthsAreRefused) {
  const Bytes good = Signed(&signer, 1);
  for (size_t size = 0; size < good.size(); ++size) {
    const VerifyResult result =
        Verify(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_NE(result, VerifyResult::kVerified);
    EXPECT_EQ(result == VerifyResult::kShort, size < kFrameHeaderBytes + kFrameTagBytes);
  }
  Bytes longer = good;
  longer.insert(longer.begin() + kFrameHeaderBytes, std::byte{0});
  EXPECT_EQ(Verify(longer), VerifyResult::kTag);
}

TEST_F(FrameAuthentication, OnlyTheAdmittedSessionOfTheSenderInThisRunWithThisKeyIsVerified) {
  FrameSigner other_session(key, kRun, 1, kNextSession), other_run(key, kRun + 1, 1, kSession);
  FrameSigner other_node(key, kRun, 2, kSession), other_key(KeyOf(2), kRun, 1, kSession);
  for (FrameSigner* wrong : {&other_session, &other_run, &other_node, &other_key}) {
    EXPECT_EQ(Verify(Signed(wrong, 1)), VerifyResult::kTag);
  }
  EXPECT_EQ(Verify(Signed(&other_node, 2)), VerifyResult::kNoSession);
  EXPECT_EQ(Verify(Signed(&signer, 9)), VerifyResult::kNoSession);
  EXPECT_EQ(Verify(Signed(&signer, 0xffff)), VerifyResult::kNoSession);
  EXPECT_EQ(Verify(Signed(&signer, 1)), VerifyResult::kVerified);
}

TEST_F(FrameAuthentication, FramesOfAnEarlierSessionAreRefusedOnceTheNextIsAdmitted) {
  const Bytes recorded = Signed(&signer, 1), kept = Signed(&signer, 1);
  EXPECT_EQ(Verify(recorded), VerifyResult::kVerified);
  verifier.Admit(1, kNextSession);
  EXPECT_EQ(Verify(recorded), VerifyResult::kTag);
  EXPECT_EQ(Verify(kept), VerifyResult::kTag);
  FrameSigner next(key, kRun, 1, kNextSession);
  EXPECT_EQ(Verify(Signed(&next, 1)), VerifyResult::kVerified);
}

TEST_F(FrameAuthentication, AReplayedFrameIsRefusedAlsoWhenTheSessionIsAdmittedAgain) {
  const Bytes frame = Signed(&signer, 1);
  EXPECT_EQ(Verify(frame), VerifyResult::kVerified);
  EXPECT_EQ(Verify(frame), VerifyResult::kReplayed);
  verifier.Admit(1, kSession);
  EXPECT_EQ(Verify(frame), VerifyResult::kReplayed);
}

TEST_F(FrameAuthentication, TheWindowEndsAfter4096Frames) {
  std::vector<Bytes> frames;
  for (int i = 0; i < 4098; ++i) frames.push_back(Signed(&signer, 1, 7, 0));
  EXPECT_EQ(Verify(frames[4096]), VerifyResult::kVerified);  // frame number 4097
  EXPECT_EQ(Verify(frames[0]), VerifyResult::kOld);          // number 1: 4096 behind
  EXPECT_EQ(Verify(frames[1]), VerifyResult::kVerified);     // number 2: 4095 behind
  EXPECT_EQ(Verify(frames[1]), VerifyResult::kReplayed);
  EXPECT_EQ(Verify(frames[4097]), VerifyResult::kVerified);  // number 4098
  EXPECT_EQ(Verify(frames[1]), VerifyResult::kOld);
  EXPECT_EQ(Verify(frames[2]), VerifyResult::kVerified);
  EXPECT_EQ(Verify(frames[4096]), VerifyResult::kReplayed);
}

TEST_F(FrameAuthentication, EveryFrameIsSignedDifferently) {
  std::set<Bytes> trailers;
  for (int i = 0; i < 100; ++i) {
    const Bytes frame = Signed(&signer, 1);
    trailers.insert(Bytes(frame.end() - kFrameTagBytes, frame.end()));
  }
  EXPECT_EQ(trailers.size(), 100u);
}

TEST_F(FrameAuthentication, AFrameOfAnEstablishedNodeIsVerified) {
  sim::HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  FrameVerifier at_a(key, kRun, 2);
  FrameSigner at_b(key, kRun, 1, cluster.node(1).session_id());
  const Bytes early = Signed(&at_b, 1);
  EXPECT_EQ(at_a.Verify(early).result, VerifyResult::kNoSession);
  for (PeerSession peer; cluster.node(0).NextSession(&peer);)
    at_a.Admit(peer.node, peer.session_id);
  EXPECT_EQ(at_a.Verify(early).result, VerifyResult::kVerified);
}

// ---- The replay window on its own. --------------------------------------------

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

// ---- Tags of the crypto library. ----------------------------------------------

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

// Test case 13 of "The Galois/Counter Mode of Operation" (McGrew, Viega): AES-256, all zeros, no
// text. The nonce of frame number 0 is all zeros too.
TEST(Tags, NumberedTagsAreGcm) {
  Gmac mac(KeyFrom(std::string(64, '0')));
  Tag tag;
  mac.Make(0, {}, {}, tag);
  EXPECT_EQ(Bytes(tag.begin(), tag.end()), FromHex("530f8afbc74536b9a963b4f1c4cb738b"));
}

// RFC 4231, test case 1, whose key of 20 bytes HMAC pads with zeros.
TEST(Tags, MessageTagsAreHmacSha256) {
  std::string key;
  for (int i = 0; i < 20; ++i) key += "0b";
  HmacSha256 mac(KeyFrom(key + std::string(24, '0')));
  for (int i = 0; i < 2; ++i) {  // twice under the same key
    Tag tag;
    mac.Make(FromHex("4869205468657265"), tag);
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
