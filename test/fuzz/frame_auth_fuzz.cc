// The verifier accepts only complete frames that were signed, each of them once.
#include <algorithm>
#include <memory>
#include <set>

#include "exchange/protocol/frame.h"
#include "segment/auth/frame_auth.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr uint64_t kRun = 5;
constexpr Nonce kSession = {std::byte{1}};

const SecretKey& Key() {
  static const SecretKey key;
  return key;
}

std::string Signed(FrameSigner* signer, NodeId source, size_t payload_bytes) {
  std::string frame(kFrameHeaderBytes + payload_bytes + kFrameTagBytes, '\0');
  const std::span all(reinterpret_cast<std::byte*>(frame.data()), frame.size());
  FrameHeader header;
  header.source = source;
  header.length = static_cast<uint32_t>(payload_bytes);
  const auto payload = all.subspan(kFrameHeaderBytes, payload_bytes);
  EncodeFrame(header, {}, payload, all);
  signer->Sign(all.first(kFrameHeaderBytes), payload, all.last<kFrameTagBytes>());
  return frame;
}

const std::vector<std::string>& Frames() {
  static const std::vector<std::string> frames = [] {
    FrameSigner one(Key(), kRun, 1, kSession), two(Key(), kRun, 2, kSession);
    std::vector<std::string> all;
    for (size_t bytes : {0, 1, 8, 300}) {
      all.push_back(Signed(&one, 1, bytes));
      all.push_back(Signed(&two, 2, bytes));
    }
    return all;
  }();
  return frames;
}

}  // namespace

std::vector<std::string> Corpus() {
  std::vector<std::string> all = Frames();
  all.push_back("");
  return all;
}

bool Target(const std::string& input) {
  FrameVerifier verifier(Key(), kRun, 4);
  verifier.Admit(1, kSession);
  verifier.Admit(2, kSession);
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<std::byte[]> block(new std::byte[input.size()]);
  std::copy_n(reinterpret_cast<const std::byte*>(input.data()), input.size(), block.get());
  const std::span<const std::byte> exact(block.get(), input.size());
  const bool expected = std::ranges::find(Frames(), input) != Frames().end();
  const Verified opened = verifier.Verify(exact);
  if ((opened.result == VerifyResult::kVerified) != expected) return false;
  if (!expected) return opened.frame.empty();
  return opened.frame.size() == input.size() - kFrameTagBytes &&
         verifier.Verify(exact).result == VerifyResult::kReplayed;
}

}  // namespace millrace::fuzz
