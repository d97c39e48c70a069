#include "batches/frames.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "batches/service_address.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

SecretKey KeyOf(int byte) {
  SecretKey key;
  std::fill(key.bytes().begin(), key.bytes().end(), std::byte(byte));
  return key;
}

std::string_view PayloadOf(const std::string& frame) {
  return std::string_view(frame).substr(kFrameHeaderBytes);
}

// The frames that a decoder gives for `bytes`, which come in parts.
std::vector<FrameDecoder::Frame> Decode(FrameDecoder* decoder, const std::string& bytes,
                                        size_t part) {
  std::vector<FrameDecoder::Frame> frames;
  for (size_t at = 0; at < bytes.size(); at += part) {
    std::string_view rest = std::string_view(bytes).substr(at, part);
    while (auto frame = decoder->Take(&rest)) frames.push_back(*frame);
  }
  return frames;
}

TEST(Frames, AreTheSameHoweverTheBytesArrive) {
  const std::string values = "four values";
  const std::string bytes = MakeFrame(FrameKind::kWant, 7) + MakeFrame(FrameKind::kPing) +
                            MakeBatchFrame({.number = 3, .batch = 5}, values.size()) + values +
                            MakeFrame(FrameKind::kConsumed, kMaxBatchNumber);
  for (size_t part = 1; part <= bytes.size(); ++part) {
    FrameDecoder decoder;
    decoder.ExpectBatches(kBatchHeaderBytes + values.size());
    const auto frames = Decode(&decoder, bytes, part);
    ASSERT_EQ(frames.size(), 4u) << part;
    EXPECT_EQ(frames[0].kind, FrameKind::kWant);
    EXPECT_EQ(ParseNumberPayload(frames[0].payload), 7u);
    EXPECT_EQ(frames[1].kind, FrameKind::kPing);
    EXPECT_EQ(frames[1].payload, "");
    const auto batch = ParseBatchHeader(frames[2].payload);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->number, 3u);
    EXPECT_EQ(batch->batch, 5u);
    EXPECT_EQ(batch->slot, kNoSlot);
    EXPECT_EQ(frames[2].payload.substr(kBatchHeaderBytes), values);
    EXPECT_EQ(ParseNumberPayload(frames[3].payload), kMaxBatchNumber);
    EXPECT_FALSE(decoder.is_broken());
  }
}

TEST(Frames, RefuseOtherBytesForEver) {
  std::string large = MakeFrame(FrameKind::kHello);
  large[2] = 2;  // 128 KiB
  std::string no_kind = MakeFrame(FrameKind::kPing);
  no_kind[4] = 99;
  std::string padded = MakeFrame(FrameKind::kPing);
  padded[7] = 1;
  for (const std::string& bytes : {large, no_kind, padded, std::string("GET / HTTP/1.1\r\n\r\n"),
                                   MakeBatchFrame({}, 1)}) {  // no batches are expected
    FrameDecoder decoder;
    EXPECT_TRUE(Decode(&decoder, bytes, 3).empty());
    EXPECT_TRUE(decoder.is_broken());
    EXPECT_TRUE(Decode(&decoder, MakeFrame(FrameKind::kPing), 3).empty());
  }
}

TEST(Frames, RefuseNumbersThatNoBatchHas) {
  EXPECT_FALSE(ParseNumberPayload(PayloadOf(MakeFrame(FrameKind::kWant, kMaxBatchNumber + 1))));
  EXPECT_FALSE(ParseNumberPayload("seven b"));
  EXPECT_FALSE(
      ParseBatchHeader(PayloadOf(MakeBatchFrame({.number = 1, .batch = kMaxBatchNumber + 1}, 0))));
  EXPECT_FALSE(ParseBatchHeader("short"));
}

TEST(Handshake, ChecksBothSidesByTheirNonces) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  const Nonce nonce{std::byte{1}}, replayed{std::byte{2}};
  const std::string payload = MakeTagged(&key, Speaker::kWorker, nonce, "hello");
  EXPECT_EQ(CheckTagged(&key, Speaker::kWorker, nonce, payload), "hello");
  EXPECT_FALSE(CheckTagged(&other, Speaker::kWorker, nonce, payload));
  EXPECT_FALSE(CheckTagged(&key, Speaker::kWorker, replayed, payload));
  // What one side says cannot be sent back to it.
  EXPECT_FALSE(CheckTagged(&key, Speaker::kService, nonce, payload));
  EXPECT_FALSE(CheckTagged(nullptr, Speaker::kWorker, nonce, payload));
  std::string changed = payload;
  changed.back() ^= 1;
  EXPECT_FALSE(CheckTagged(&key, Speaker::kWorker, nonce, changed));
  EXPECT_FALSE(CheckTagged(&key, Speaker::kWorker, nonce, "short"));
}

TEST(Handshake, WithoutAKeyOnBothSidesNeedsNoTag) {
  const std::string payload = MakeTagged(nullptr, Speaker::kWorker, {}, "hello");
  EXPECT_EQ(CheckTagged(nullptr, Speaker::kWorker, {}, payload), "hello");
}

TEST(Handshake, TellsWhetherAKeyIsNeeded) {
  const Nonce nonce{std::byte{9}};
  const std::string frame = MakeChallenge({3, true, nonce});
  const auto challenge = ParseChallenge(PayloadOf(frame));
  ASSERT_TRUE(challenge);
  EXPECT_EQ(challenge->version, 3u);
  EXPECT_TRUE(challenge->needs_key);
  EXPECT_EQ(challenge->nonce, nonce);
  EXPECT_FALSE(ParseChallenge("short"));
}

batch_api::Welcome Consistent() {
  batch_api::Welcome welcome;
  welcome.set_batch_size(4);
  welcome.add_top()->add_dim(4);
  welcome.mutable_top(0)->add_dim(6);
  welcome.add_top()->add_dim(4);
  welcome.set_credit(2);
  welcome.set_timeout_ms(1000);
  welcome.set_slots(3);
  welcome.set_slot_bytes(128);
  welcome.set_offset(16);
  return welcome;
}

TEST(Welcome, IsCheckedBeforeItsNumbersAreUsed) {
  EXPECT_TRUE(IsConsistent(Consistent()));
  EXPECT_EQ(ValuesBytes(Consistent()), (4 * 6 + 4) * sizeof(float));
  const auto refuses = [](auto change) {
    batch_api::Welcome welcome = Consistent();
    change(&welcome);
    return !IsConsistent(welcome);
  };
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->clear_top(); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->set_batch_size(5); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->mutable_top(0)->set_dim(1, 0); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->mutable_top(0)->set_dim(1, -6); }));
  EXPECT_TRUE(
      refuses([](auto* welcome) { welcome->mutable_top(0)->set_dim(1, int64_t{1} << 62); }));
  EXPECT_TRUE(refuses([](auto* welcome) {
    for (int i = 0; i < 5; ++i) welcome->mutable_top(0)->add_dim(int64_t{1} << 30);
  }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->set_credit(0); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->set_timeout_ms(0); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->set_offset(17); }));
  EXPECT_TRUE(refuses([](auto* welcome) { welcome->set_offset(20); }));
}

TEST(ServiceAddresses, HaveANameALayerAndOptions) {
  const ServiceAddress plain = ParseServiceAddress("//127.0.0.1:7700/train");
  EXPECT_EQ(plain.text, "batch://127.0.0.1:7700/train");
  EXPECT_EQ(plain.host_and_port, "127.0.0.1:7700");
  EXPECT_EQ(plain.name, "train");
  EXPECT_EQ(plain.layer, "");
  EXPECT_TRUE(plain.memory);
  const ServiceAddress full =
      ParseServiceAddress("//[::1]:80/a/data/left?key_file=dir/cluster.key&wait=1.5&memory=off");
  EXPECT_EQ(full.host_and_port, "[::1]:80");
  EXPECT_EQ(full.name, "a");
  EXPECT_EQ(full.layer, "data/left");
  EXPECT_EQ(full.key_file, "dir/cluster.key");
  EXPECT_EQ(full.wait_seconds, 1.5);
  EXPECT_FALSE(full.memory);
}

TEST(ServiceAddresses, SayWhatIsExpected) {
  for (const char* text :
       {"", "127.0.0.1:7700/train", "//127.0.0.1/train", "//127.0.0.1:0/train", "//127.0.0.1:7700",
        "//127.0.0.1:7700/", "//:7700/train", "//127.0.0.1:7700/a b"}) {
    EXPECT_CONTAINS(ErrorOf([&] { ParseServiceAddress(text); }), "expected batch://HOST:PORT/NAME");
  }
  for (const char* option : {"wait=soon", "wait=-1", "memory=maybe", "key_file=", "color=red"}) {
    EXPECT_CONTAINS(ErrorOf([&] { ParseServiceAddress(StrCat("//h:1/train?", option)); }),
                    StrCat("'", option, "' is no option"));
  }
}

TEST(ServiceAddresses, OtherMachinesReachNeedAKey) {
  EXPECT_EQ(CheckedListenAddress("127.0.0.1:0", false), "127.0.0.1:0");
  EXPECT_EQ(CheckedListenAddress("0.0.0.0:7700", true), "0.0.0.0:7700");
  EXPECT_CONTAINS(ErrorOf([] { CheckedListenAddress("0.0.0.0:7700", false); }),
                  "expected --key_file");
  EXPECT_CONTAINS(ErrorOf([] { CheckedListenAddress("7700", true); }), "expected HOST:PORT");
}

}  // namespace
}  // namespace millrace::test
