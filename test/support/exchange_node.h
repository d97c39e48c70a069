// One exchange node in a test: its memory, its clock, and the bytes of frames.
#ifndef MILLRACE_TEST_SUPPORT_EXCHANGE_NODE_H_
#define MILLRACE_TEST_SUPPORT_EXCHANGE_NODE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/range_lock.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/protocol/exchange.h"

namespace millrace::test {

inline constexpr int64_t kTickNs = 1'000'000;

// Settings for which a node bootstraps after 40 ticks alone, and the peer timeout is 60 ticks.
inline ExchangeConfig TickConfig() {
  ExchangeConfig config;
  config.heartbeat_ns = 8 * kTickNs;
  config.peer_timeout_ns = 60 * kTickNs;
  config.bootstrap_after_ns = 40 * kTickNs;
  config.resend_ns = 4 * kTickNs;
  config.push_after_ns = 3 * kTickNs;
  return config;
}

// Bytes of a frame, aligned as a transport delivers them.
class FrameBytes {
 public:
  FrameBytes(std::span<const std::byte> head, std::span<const std::byte> payload)
      : words_((head.size() + payload.size() + 7) / 8), bytes_(head.size() + payload.size()) {
    std::copy(payload.begin(), payload.end(), std::copy(head.begin(), head.end(), data()));
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
  std::span<const std::byte> view() const {
    return {reinterpret_cast<const std::byte*>(words_.data()), bytes_};
  }
  // Decodes the frame. Throws Error, which fails the test, if the frame is invalid.
  FrameView decoded() const {
    FrameView frame;
    const DropReason drop = DecodeFrame(view(), &frame);
    if (drop != DropReason::kNone) throw Error("frame dropped: ", DropReasonName(drop));
    return frame;
  }

 private:
  std::vector<uint64_t> words_;
  size_t bytes_;
};

// Does not run until Start is called.
struct ExchangeNode {
  std::vector<float> weights, base, pending;
  std::unique_ptr<RangeLock> locks;  // of the weights
  std::unique_ptr<ChunkExecutor> executor;
  std::unique_ptr<Exchange> exchange;
  uint64_t iterations = 0;

  // Restarts the node with weights of zero.
  void Start(const ExchangeConfig& config, int64_t size, int64_t chunk_floats) {
    weights.assign(size, 0.0f);
    base = pending = weights;
    iterations = 0;
    executor.reset();
    locks = std::make_unique<RangeLock>(weights.data());
    executor =
        MakeHostExecutor({weights.data(), base.data(), pending.data(), nullptr, size, chunk_floats},
                         config.codec, {}, BestSimd(), locks.get());
    exchange = std::make_unique<Exchange>(config, executor.get());
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_EXCHANGE_NODE_H_
