// Handshake messages of any content. A message that decodes is encoded to the same bytes. A peer
// that has not echoed a challenge gets no session and cannot advance its incarnation at the node.
// Every outgoing message decodes.
//
// The first byte of an input selects the repairs of the 208-byte frames that follow: 1: the
// checksum, 2: the tag, 4: the echo.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "base/rng.h"
#include "base/wire_bytes.h"
#include "segment/auth/key_file.h"
#include "segment/handshake/handshake.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr uint64_t kRun = 5;
constexpr size_t kAtChecksum = 188, kAtEcho = 88;
enum : uint8_t { kRepairChecksum = 1, kRepairTag = 2, kRepairEcho = 4, kKeyed = 8 };

RandomBytes Seeded(uint64_t name) {
  auto rng = std::make_shared<Rng>(1, std::initializer_list<uint64_t>{name});
  return [rng](std::span<std::byte> out) {
    for (std::byte& b : out) b = static_cast<std::byte>(rng->Next());
  };
}

const SecretKey& Key() {
  static const SecretKey key;
  return key;
}

HandshakeConfig ConfigOf(NodeId node) {
  HandshakeConfig config;
  config.run = kRun;
  config.node = node;
  config.names = {"a", "b", "c"};
  config.settings.max_nodes = 3;
  config.multicast = true;
  return config;
}

std::string Input(uint8_t how, const std::vector<HandshakeBytes>& frames) {
  std::string input(1, static_cast<char>(how));
  for (const auto& f : frames) input.append(reinterpret_cast<const char*>(f.data()), f.size());
  return input;
}

// The messages that node b sends to node a.
std::vector<HandshakeBytes> Spoken(const SecretKey* key) {
  Handshake a(ConfigOf(0), key, Seeded(1)), b(ConfigOf(1), key, Seeded(2));
  std::vector<HandshakeBytes> frames;
  for (int64_t now = 0; now < 400'000'000; now += 50'000'000) {
    OutHandshake room[4];
    for (const auto& out : std::span(room).first(a.Send(room, now))) b.Receive(0, out.bytes, now);
    for (const auto& out : std::span(room).first(b.Send(room, now))) {
      frames.push_back(out.bytes);
      a.Receive(1, out.bytes, now);
    }
  }
  return frames;
}

// The bytes in an exact-size block, so that a sanitizer detects any read beyond them.
struct Exact {
  explicit Exact(std::string_view text) : bytes(new std::byte[text.size()]), size(text.size()) {
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), size, bytes.get());
  }
  std::span<std::byte> all() const { return {bytes.get(), size}; }
  std::unique_ptr<std::byte[]> bytes;
  size_t size;
};

bool DecodesSafely(std::span<const std::byte> bytes) {
  HandshakeMessage in;
  if (DecodeHandshake(bytes, &in) != DropReason::kNone) return true;
  HandshakeBytes again;
  EncodeHandshake(in, &again);
  return std::equal(again.begin(), again.begin() + kHandshakeTagged, bytes.begin());
}

void Repair(uint8_t how, const Nonce& challenge, HmacSha256* hmac, std::span<std::byte> f) {
  if (f.size() != kHandshakeBytes) return;
  if ((how & kRepairEcho) != 0) Put<Nonce>(f.data(), kAtEcho, challenge);
  if ((how & kRepairChecksum) != 0) {
    Put<uint32_t>(f.data(), kAtChecksum, Crc32c(f.first(kAtChecksum)));
  }
  if ((how & kRepairTag) != 0) hmac->Make(f.first(kHandshakeTagged), f.last<kTagBytes>());
}

}  // namespace

std::vector<std::string> Corpus() {
  const auto open = Spoken(nullptr), keyed = Spoken(&Key());
  std::vector<std::string> all = {""};
  for (uint8_t how : {0, 1, 5}) all.push_back(Input(how, open));
  for (uint8_t how : {0, 3, 7}) {
    all.push_back(Input(how | kKeyed, keyed));
    all.push_back(Input(how | kKeyed, open));
    all.push_back(Input(how, keyed));
  }
  return all;
}

bool Target(const std::string& input) {
  if (input.empty()) return true;
  const auto how = static_cast<uint8_t>(input[0]);
  const SecretKey* key = (how & kKeyed) != 0 ? &Key() : nullptr;
  static HmacSha256 hmac(HandshakeKey(Key(), kRun));
  Handshake node(ConfigOf(0), key, Seeded(3));
  Nonce challenge{};  // the latest one sent to node b
  std::string_view rest = std::string_view(input).substr(1);
  for (int64_t now = 0; !rest.empty(); now += 30'000'000) {
    Exact frame(rest.substr(0, kHandshakeBytes));
    rest.remove_prefix(frame.size);
    Repair(how, challenge, &hmac, frame.all());
    if (!DecodesSafely(frame.all())) return false;
    node.Receive(1, frame.all(), now);
    OutHandshake room[2];
    for (const auto& out : std::span(room).first(node.Send(room, now))) {
      HandshakeMessage ours;
      if (DecodeHandshake(out.bytes, &ours) != DropReason::kNone) return false;
      if (out.to == 1) challenge = ours.challenge;
    }
  }
  const bool could_know = (how & kRepairEcho) != 0 && (key == nullptr || (how & kRepairTag) != 0);
  size_t raises = 0;
  for (IncarnationRaise raise; node.TakeRaise(&raise);) ++raises;
  if (node.incarnation() != 1 && !could_know) return false;
  if (node.incarnation() > kLatestIncarnation || raises > 1) return false;
  return !node.IsEstablished(2) && (could_know || !node.IsEstablished(1));
}

}  // namespace millrace::fuzz
