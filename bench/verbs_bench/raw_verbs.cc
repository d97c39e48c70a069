#include "bench/verbs_bench/raw_verbs.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/threads/cache_line.h"

namespace millrace::bench {
namespace {

constexpr size_t kSends = 512, kReceives = 1024, kRouteBytes = 40;
constexpr size_t kBatch = 32;
// The queue key of rdma_cm's datagrams.
constexpr uint32_t kKey = 0x01234567;
constexpr int kPort = 7900;
constexpr int kMaxSleepMs = 50;  // after that it looks whether it is to stop

ibv_gid GidOf(const InetAddress& address) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, &address.v4.sin_addr, 4);
  return gid;
}

uint8_t GidIndex(const VerbsDevice& device) {
  const ibv_gid own = GidOf(device.local());
  ibv_port_attr port{};
  ibv_query_port(device.context(), device.port(), &port);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(device.context(), device.port(), static_cast<uint32_t>(i), &entry, 0)) {
      continue;
    }
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && std::memcmp(&entry.gid, &own, 16) == 0) {
      return static_cast<uint8_t>(i);
    }
  }
  throw Error(device.name(), " has no RoCE v2 address for ", device.local().Text());
}

}  // namespace

RawVerbs::RawVerbs(int node, int nodes)
    : device_(ResolveUdpAddress("address", AddressOf(node, kPort + node))),
      bytes_(device_.mtu()),
      stride_(WholeCacheLines(kRouteBytes + bytes_)),
      queue_(&device_, kSends, kReceives),
      groups_(&device_, "", 0),
      sent_memory_(bytes_),
      received_memory_(stride_ * kReceives) {
  std::string why;
  own_group_ = groups_.Join(static_cast<NodeId>(node), true, &why);
  for (int other = 0; other < nodes; ++other) {
    if (other == node) continue;
    const auto joined = groups_.Join(static_cast<NodeId>(other), false, &why);
    if (!own_group_ || !joined || !queue_.Attach(joined->group)) {
      throw Error(device_.name(), ": multicast groups are refused: ", why);
    }
  }
  sent_region_ = device_.Register(sent_memory_, "sending");
  received_region_ = device_.Register(received_memory_, "receiving");
  for (uint32_t i = 0; i < kReceives; ++i) free_.push_back(i);
  PostReceives(kReceives);
}

void RawVerbs::Connect(const std::vector<std::unique_ptr<RawVerbs>>& all) {
  const uint8_t index = GidIndex(device_);
  for (const auto& each : all) {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.grh.dgid = GidOf(each->device_.local());
    attributes.grh.sgid_index = index;
    attributes.grh.hop_limit = 64;
    attributes.port_num = device_.port();
    const bool self = each.get() == this;
    peers_.push_back(
        {self ? nullptr : device_.MakeAddress(attributes), each->queue_.number(), kKey});
    if (!self && !peers_.back().address) {
      throw Error(device_.name(), ": no address handle: ", ErrnoText(errno));
    }
  }
}

void RawVerbs::PostReceives(size_t count) {
  while (count > 0) {
    std::array<ibv_recv_wr, kBatch> requests;
    std::array<ibv_sge, kBatch> pieces;
    const size_t some = std::min(count, kBatch);
    for (size_t i = 0; i < some; ++i) {
      const uint32_t index = free_.back();
      free_.pop_back();
      pieces[i] = {reinterpret_cast<uintptr_t>(received_memory_.data() + index * stride_),
                   static_cast<uint32_t>(kRouteBytes + bytes_), received_region_->lkey};
      requests[i] = {index, i + 1 < some ? &requests[i + 1] : nullptr, &pieces[i], 1};
    }
    ibv_recv_wr* refused = nullptr;
    if (ibv_post_recv(queue_.get(), requests.data(), &refused)) throw Error("ibv_post_recv");
    count -= some;
  }
}

bool RawVerbs::Take() {
  std::array<ibv_wc, kBatch> completions;
  const int count = ibv_poll_cq(queue_.receive_completions(), kBatch, completions.data());
  uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) throw Error("a receive failed");
    bytes += completions[i].byte_len - kRouteBytes;
    free_.push_back(static_cast<uint32_t>(completions[i].wr_id));
  }
  if (count > 0) bytes_received_ += bytes;
  if (free_.size() >= kBatch) PostReceives(free_.size());
  return count > 0;
}

void RawVerbs::Reap() {
  ibv_wc completion;
  while (ibv_poll_cq(queue_.send_completions(), 1, &completion) > 0) {
    if (completion.status != IBV_WC_SUCCESS) throw Error("a send failed");
    done_ = completion.wr_id;
  }
}

bool RawVerbs::Send(const Pattern& pattern) {
  if (sent_ - done_ + kBatch > kSends) Reap();
  if (sent_ - done_ + kBatch > kSends) return false;
  std::array<ibv_send_wr, kBatch> requests{};
  ibv_sge piece = {reinterpret_cast<uintptr_t>(sent_memory_.data()), static_cast<uint32_t>(bytes_),
                   sent_region_->lkey};
  for (size_t i = 0; i < kBatch; ++i) {
    const NodeId to = pattern[sent_++ % pattern.size()];
    ibv_send_wr& request = requests[i];
    request.wr_id = sent_;
    request.next = i + 1 < kBatch ? &requests[i + 1] : nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = i + 1 < kBatch ? 0 : IBV_SEND_SIGNALED;
    if (to == kAllNodes) {
      request.wr.ud = {own_group_->address.get(), own_group_->queue_pair, own_group_->key};
    } else {
      request.wr.ud = {peers_[to].address.get(), peers_[to].queue_pair, peers_[to].key};
    }
  }
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(queue_.get(), requests.data(), &refused)) throw Error("ibv_post_send");
  return true;
}

void RawVerbs::Sleep(bool sends) {
  queue_.ArmReceive();
  if (sends) queue_.ArmSend();
  // A completion from before the queues were armed raises no event.
  Reap();
  if (Take() || (sends && sent_ - done_ + kBatch <= kSends)) return;
  pollfd polled = {queue_.fd(), POLLIN, 0};
  if (poll(&polled, 1, kMaxSleepMs) > 0) queue_.TakeEvents();
}

void RawVerbs::Run(const Pattern* pattern, const std::atomic<bool>& stop) {
  while (!stop) {
    const bool took = Take();
    const bool sent = pattern && Send(*pattern);
    if (!took && !sent) Sleep(pattern != nullptr);
  }
}

}  // namespace millrace::bench
