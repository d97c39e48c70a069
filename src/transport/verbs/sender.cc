#include "transport/verbs/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/threads/cache_line.h"
#include "millrace/transport.h"
#include "transport/verbs/gpu_memory.h"

namespace millrace::inline transport {
namespace {

constexpr int kReapBatch = 16;

uint64_t AddressOf(const std::byte* bytes) { return reinterpret_cast<uintptr_t>(bytes); }

}  // namespace

VerbsSender::VerbsSender(const VerbsDevice* device, VerbsQueuePair* queue, size_t slots,
                         size_t datagram_bytes)
    : queue_(*queue),
      device_(*device),
      slots_(slots),
      stride_(WholeCacheLines(datagram_bytes)),
      memory_(HostMemory(), stride_ * slots),
      region_(device->Register({memory_.get<std::byte>(), stride_ * slots}, "send_slots")),
      frames_after_(slots) {}

bool VerbsSender::RegisterMemory(std::span<const std::byte> memory) {
  Device& owner = DeviceRegistry::Get().OwnerOf(memory.data());
  const bool on_host = owner.memory().on_host();
  MemoryRegion region = on_host ? device_.Register(memory, "the weights")
                                : RegisterGpuMemory(device_, owner, memory, DefaultClock());
  if (!region) return false;
  all_on_host_ &= on_host;
  registered_.push_back({memory.data(), memory.data() + memory.size(), std::move(region), on_host});
  return true;
}

const VerbsSender::Registered* VerbsSender::Find(std::span<const std::byte> piece) const {
  for (const Registered& each : registered_) {
    if (piece.data() >= each.begin && piece.data() + piece.size() <= each.end) return &each;
  }
  return nullptr;
}

bool VerbsSender::HasRoom(size_t datagrams) {
  if (added_ - sent_ + datagrams > slots_) Reap();
  return added_ - sent_ + datagrams <= slots_;
}

void VerbsSender::Add(const VerbsDestination& to, std::span<const std::byte> prefix,
                      std::span<const std::byte> header, std::span<const std::byte> payload,
                      bool ends_frame) {
  if (chained_ == kChain) Post();
  std::byte* const slot = SlotAt(added_);
  std::byte* end = std::copy(prefix.begin(), prefix.end(), slot);
  end = std::copy(header.begin(), header.end(), end);
  bool is_short = prefix.size() + header.size() + payload.size() <= queue_.max_inline();
  // A short payload is copied, unless it lies in memory that only the device can read.
  const bool looks = !payload.empty() && (!is_short || !all_on_host_);
  const Registered* from = looks ? Find(payload) : nullptr;
  if (is_short && from && from->on_host) from = nullptr;
  is_short &= !from;
  if (!from) end = std::copy(payload.begin(), payload.end(), end);
  frames_ += ends_frame ? 1 : 0;
  frames_after_[added_ % slots_] = frames_;
  ++added_;
  if (from) last_direct_ = added_;
  direct_unsignaled_ |= from != nullptr;

  ibv_sge* const pieces = &pieces_[2 * chained_];
  pieces[0] = {AddressOf(slot), static_cast<uint32_t>(end - slot), region_->lkey};
  if (from) {
    pieces[1] = {AddressOf(payload.data()), static_cast<uint32_t>(payload.size()),
                 from->region->lkey};
  }
  ibv_send_wr& request = requests_[chained_];
  request = {};
  request.wr_id = added_;
  request.sg_list = pieces;
  request.num_sge = from ? 2 : 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = is_short ? IBV_SEND_INLINE : 0;
  request.wr.ud = {to.address, to.queue_pair, to.key};
  if (chained_ > 0) requests_[chained_ - 1].next = &request;
  ++chained_;
  if (++unsignaled_ == kMaxUnsignaled) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignaled_ = 0;
    direct_unsignaled_ = false;
  }
}

void VerbsSender::Post() {
  const size_t count = std::exchange(chained_, 0);
  if (count == 0) return;
  // The caller waits for this memory. Slots alone need no completion until the ring is full.
  if (direct_unsignaled_) {
    requests_[count - 1].send_flags |= IBV_SEND_SIGNALED;
    unsignaled_ = 0;
    direct_unsignaled_ = false;
  }
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(queue_.get(), requests_.data(), &refused) == 0) return;
  queue_.SetBroken();  // Restart counts the lost frames
}

bool VerbsSender::Reap() {
  const uint64_t before = sent_;
  std::array<ibv_wc, kReapBatch> completions;
  for (int count = kReapBatch; count == kReapBatch;) {
    count = ibv_poll_cq(queue_.send_completions(), kReapBatch, completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[i];
      sent_ = std::max(sent_, completion.wr_id);
      const uint64_t frames = frames_after_[(sent_ - 1) % slots_];
      if (completion.status != IBV_WC_SUCCESS) {
        failed_ += frames - frames_sent_;
        queue_.SetBroken();
      }
      frames_sent_ = frames;
    }
  }
  return sent_ != before;
}

uint64_t VerbsSender::Unfinished() const {
  return sent_ >= last_direct_ ? 0 : frames_ - frames_sent_;
}

uint64_t VerbsSender::TakeFailed() { return std::exchange(failed_, 0); }

void VerbsSender::Skip() {
  ++frames_;
  if (sent_ == added_) {
    frames_sent_ = frames_;
  } else {
    frames_after_[(added_ - 1) % slots_] = frames_;  // complete together with the previous one
  }
}

void VerbsSender::Restart() {
  chained_ = 0;
  unsignaled_ = 0;
  direct_unsignaled_ = false;
  failed_ += frames_ - frames_sent_;
  sent_ = added_;
  frames_sent_ = frames_;
}

}  // namespace millrace::inline transport
