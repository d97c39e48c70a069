// The bytes of a frame in simulation.
#ifndef MILLRACE_TEST_SIM_FRAME_BYTES_H_
#define MILLRACE_TEST_SIM_FRAME_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "exchange/protocol/frame.h"

namespace millrace::sim {

// Bytes of a frame, aligned as a transport delivers them.
class FrameBytes {
 public:
  explicit FrameBytes(std::span<const std::byte> head = {}, std::span<const std::byte> payload = {})
      : words_((head.size() + payload.size() + 7) / 8), bytes_(head.size() + payload.size()) {
    std::copy(payload.begin(), payload.end(), std::copy(head.begin(), head.end(), data()));
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
  std::span<const std::byte> view() const {
    return {reinterpret_cast<const std::byte*>(words_.data()), bytes_};
  }
  // Decodes a frame of the exchange. Throws Error, which fails the test, if it is invalid.
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

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FRAME_BYTES_H_
