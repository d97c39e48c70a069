#include "exchange/protocol/deferred_diffs.h"

#include <algorithm>

#include "base/threads/cache_line.h"

namespace millrace::inline exchange {

DeferredDiffs::DeferredDiffs(size_t capacity, size_t payload_bytes, MemorySpace& memory)
    : stride_(WholeCacheLines(payload_bytes)), payloads_(memory, capacity * stride_) {
  waiting_.reserve(capacity);
  places_.reserve(capacity);
  free_.reserve(capacity);
  for (size_t place = capacity; place-- > 0;) free_.push_back(static_cast<uint32_t>(place));
}

void DeferredDiffs::Add(const FrameView& frame) {
  const uint32_t place = free_.back();
  free_.pop_back();
  std::byte* const copy = payloads_.get<std::byte>() + place * stride_;
  std::copy(frame.payload.begin(), frame.payload.end(), copy);
  waiting_.push_back({frame.header, {}, {copy, frame.payload.size()}});
  places_.push_back(place);
}

}  // namespace millrace::inline exchange
