#include "transport/verbs/receiver.h"

#include <algorithm>

#include "base/threads/cache_line.h"

namespace millrace::inline transport {

VerbsReceiver::VerbsReceiver(const VerbsDevice* device, VerbsQueuePair* queue, size_t buffers,
                             size_t datagram_bytes)
    : queue_(*queue),
      buffers_(buffers),
      stride_(WholeCacheLines(kRouteBytes + datagram_bytes)),
      refill_(std::clamp<size_t>(buffers / 8, 1, kBatch)),
      memory_(HostMemory(), stride_ * buffers),
      region_(device->Register({memory_.get<std::byte>(), stride_ * buffers}, "receive_buffers")),
      in_use_(buffers) {
  free_.reserve(buffers);
  for (uint32_t i = 0; i < kBatch; ++i) {
    pieces_[i] = {0, static_cast<uint32_t>(kRouteBytes + datagram_bytes), region_->lkey};
  }
  Restart();
}

void VerbsReceiver::Restart() {
  std::vector<bool> used(buffers_);
  for (uint64_t i = given_back_; i < kept_; ++i) used[in_use_[i % buffers_]] = true;
  free_.clear();
  found_ = next_ = 0;
  for (uint32_t i = 0; i < buffers_; ++i) {
    if (!used[i]) free_.push_back(i);
  }
  Post();
}

bool VerbsReceiver::HasDatagram() {
  if (next_ < found_) return true;
  next_ = 0;
  const int count = ibv_poll_cq(queue_.receive_completions(), kBatch, completions_.data());
  found_ = static_cast<size_t>(std::max(count, 0));
  return found_ > 0;
}

void VerbsReceiver::Free(uint32_t index) {
  free_.push_back(index);
  if (free_.size() >= refill_) Post();
}

void VerbsReceiver::GiveBack(uint64_t position) {
  for (; given_back_ < position; ++given_back_) Free(in_use_[given_back_ % buffers_]);
}

void VerbsReceiver::Post() {
  while (!free_.empty() && !queue_.broken()) {
    const size_t count = std::min(free_.size(), kBatch);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t index = free_[free_.size() - 1 - i];
      pieces_[i].addr = reinterpret_cast<uintptr_t>(BufferAt(index));
      requests_[i] = {index, i + 1 < count ? &requests_[i + 1] : nullptr, &pieces_[i], 1};
    }
    ibv_recv_wr* refused = nullptr;
    if (ibv_post_recv(queue_.get(), requests_.data(), &refused) != 0) queue_.SetBroken();
    free_.resize(free_.size() - count);
  }
}

}  // namespace millrace::inline transport
