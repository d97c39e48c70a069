// What a frame's authentication costs: nanoseconds and GB/s for frames of 1,464 and 8,960
// bytes (the largest over UDP with MTUs of 1,500 and 9,000), by what the program does
// (FrameSigner, FrameVerifier) and by the alternatives. Medians; rounds go through all in turn, so
// that a machine that is slow for a while is slow for all.
//
//   build/bench/auth_bench --repeats=21
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "bench/auth_bench/alternatives.h"
#include "bench/measure.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/frame_auth.h"

DEFINE_int32(repeats, 21, "measurements; medians are printed");

namespace {

using namespace millrace;

constexpr size_t kSizes[] = {1464, 8960};
constexpr int kFrames = 2000;  // a measurement
constexpr Nonce kSession = {std::byte{1}};

struct Contender {
  std::string name;
  std::function<double(size_t)> measure;  // ns a frame of so many bytes
  std::vector<double> ns[std::size(kSizes)];
};

template <typename Body>
double NsEach(Body body) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (int i = 0; i < kFrames; ++i) body(i);
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kFrames;
}

// Frames as they travel, each with its trailer.
class SignedFrames {
 public:
  explicit SignedFrames(size_t bytes) : bytes_(bytes), memory_(kFrames * (bytes + kFrameTagBytes)) {
    FrameHeader header;
    header.length = static_cast<uint32_t>(bytes - kFrameHeaderBytes);
    for (int i = 0; i < kFrames; ++i) {
      EncodeFrame(header, {}, frame(i).subspan(kFrameHeaderBytes, header.length), frame(i));
    }
  }
  std::span<std::byte> frame(int i) {
    return std::span(memory_).subspan(static_cast<size_t>(i) * (bytes_ + kFrameTagBytes),
                                      bytes_ + kFrameTagBytes);
  }
  double Sign(FrameSigner* signer) {
    return NsEach([&](int i) {
      const auto all = frame(i);
      signer->Sign(all.first(kFrameHeaderBytes),
                   all.subspan(kFrameHeaderBytes, bytes_ - kFrameHeaderBytes),
                   all.last<kFrameTagBytes>());
    });
  }
  double Verify(FrameVerifier* verifier) {
    return NsEach([&](int i) { opened_ += verifier->Verify(frame(i)).frame.size() == bytes_; });
  }
  int opened() const { return opened_; }

 private:
  const size_t bytes_;
  std::vector<std::byte> memory_;
  int opened_ = 0;
};

double SignOrVerify(size_t bytes, bool open) {
  const SecretKey key;
  FrameSigner signer(key, 1, 0, kSession);
  FrameVerifier verifier(key, 1, 1);
  verifier.Admit(0, kSession);
  SignedFrames frames(bytes);
  const double sign_ns = frames.Sign(&signer), verify_ns = frames.Verify(&verifier);
  if (frames.opened() != kFrames) {
    fprintf(stderr, "auth_bench: %d of %d frames were opened\n", frames.opened(), kFrames);
    exit(1);
  }
  return open ? verify_ns : sign_ns;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const int repeats = std::max(FLAGS_repeats, 1);
  std::vector<Contender> contenders(2);
  contenders[0] = {
      "FrameSigner (OpenSSL AES-256-GCM)", [](size_t n) { return SignOrVerify(n, false); }, {}};
  contenders[1] = {"FrameVerifier (the same, and its window)",
                   [](size_t n) { return SignOrVerify(n, true); },
                   {}};
  const auto alternatives = auth_bench::Alternatives();
  const std::vector<std::byte> memory(std::max(kSizes[0], kSizes[1]));
  for (const auto& each : alternatives) {
    contenders.push_back({each->name(),
                          [&](size_t bytes) {
                            std::byte tag[16];
                            const std::span frame(memory);
                            return NsEach([&](int) {
                              each->Tag(frame.first(64), frame.subspan(64, bytes - 64), tag);
                            });
                          },
                          {}});
  }
  for (int round = 0; round < repeats; ++round) {
    for (Contender& each : contenders) {
      for (size_t i = 0; i < std::size(kSizes); ++i) each.ns[i].push_back(each.measure(kSizes[i]));
    }
  }
  printf("%-36s", "ns a frame, GB/s");
  for (size_t size : kSizes) printf("%10zu bytes    ", size);
  printf("\n");
  for (const Contender& each : contenders) {
    printf("%-36s", each.name.c_str());
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const double ns = bench::Median(each.ns[i]);
      printf("%8.0f ns %6.2f GB/s", ns, static_cast<double>(kSizes[i]) / ns);
    }
    printf("\n");
  }
  return 0;
}
