#include "transport/verbs/groups.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

// The context of an rdma_cm event identifies the group by its node; never null.
void* ContextOf(NodeId node) { return reinterpret_cast<void*>(uintptr_t{node} + 1); }

NodeId NodeOf(const rdma_cm_event& event) {
  return static_cast<NodeId>(reinterpret_cast<uintptr_t>(event.param.ud.private_data) - 1);
}

bool IsMulticast(const InetAddress& address) {
  if (address.is_v6()) return IN6_IS_ADDR_MULTICAST(&address.v6.sin6_addr);
  return IN_MULTICAST(ntohl(address.v4.sin_addr.s_addr));
}

}  // namespace

// The IPv4 addresses are a quarter of the administratively scoped block 239.0.0.0/8 (RFC 2365).
// Their Ethernet addresses differ from those of 224.0.0.x, which switches flood to all ports.
std::string DefaultMulticastBase(bool ipv6, uint16_t group) {
  constexpr unsigned kNodes = 64;
  char text[INET6_ADDRSTRLEN];
  if (ipv6) {
    std::snprintf(text, sizeof(text), "ff15::7362:%x:0", unsigned{group});
  } else {
    const unsigned low = group * kNodes;
    std::snprintf(text, sizeof(text), "239.%u.%u.%u", 64 + (low >> 16), low >> 8 & 0xff,
                  low & 0xff);
  }
  return text;
}

VerbsGroups::VerbsGroups(const VerbsDevice* device, const std::string& base, uint16_t group)
    : device_(*device), channel_(OpenCmChannel()), id_(MakeCmId(channel_.get(), nullptr)) {
  const bool ipv6 = device->local().is_v6();
  const std::string text = base.empty() ? DefaultMulticastBase(ipv6, group) : base;
  const std::string field = "transport verbs: multicast_base";
  base_ = ResolveUdpAddress(field,
                            text.find(':') == std::string::npos ? text + ":0" : "[" + text + "]:0");
  if (!IsMulticast(base_) || base_.is_v6() != ipv6) {
    throw Error(field, "=", text, ": expected a multicast address of IPv", ipv6 ? 6 : 4);
  }
  InetAddress local = device->local();
  (ipv6 ? local.v6.sin6_port : local.v4.sin_port) = 0;
  if (rdma_bind_addr(id_.get(), &local.any) != 0) {
    ThrowVerbsError(device->name(), "multicast groups", errno);
  }
}

InetAddress VerbsGroups::AddressOf(NodeId of) const {
  InetAddress address = base_;
  uint8_t* const bytes = address.is_v6() ? address.v6.sin6_addr.s6_addr + 12
                                         : reinterpret_cast<uint8_t*>(&address.v4.sin_addr.s_addr);
  const unsigned low = (unsigned{bytes[2]} << 8 | bytes[3]) + of;
  bytes[2] = static_cast<uint8_t>(low >> 8);
  bytes[3] = static_cast<uint8_t>(low);
  return address;
}

std::string VerbsGroups::NameOf(NodeId of) const {
  std::string text = AddressOf(of).Text();
  text.resize(text.rfind(':'));
  return text;
}

bool VerbsGroups::Ask(const InetAddress& address, NodeId of, bool only_send) {
  InetAddress group = address;
  if (!only_send) return rdma_join_multicast(id_.get(), &group.any, ContextOf(of)) == 0;
  rdma_cm_join_mc_attr_ex how{};
  how.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  how.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  how.addr = &group.any;
  return rdma_join_multicast_ex(id_.get(), &how, ContextOf(of)) == 0;
}

std::optional<VerbsGroups::Joined> VerbsGroups::Join(NodeId of, bool own, std::string* why) {
  if (unresponsive_) {
    *why = "no answer";
    return std::nullopt;
  }
  const InetAddress address = AddressOf(of);
  // For its own group, prefer a send-only membership if supported: the node's own copies are
  // useless.
  for (const bool only_send : {true, false}) {
    if (only_send && !own) continue;
    if (!Ask(address, of, only_send)) {
      *why = ErrnoText(errno);
      continue;
    }
    auto joined = Await(why);
    if (joined) return joined;
    if (!unresponsive_) {
      InetAddress group = address;
      rdma_leave_multicast(id_.get(), &group.any);
    }
  }
  return std::nullopt;
}

std::optional<VerbsGroups::Joined> VerbsGroups::Await(std::string* why) {
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) != 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      unresponsive_ = true;
      *why = "no answer";
      return std::nullopt;
    }
    pollfd polled = {channel_->fd, POLLIN, 0};
    poll(&polled, 1, static_cast<int>(left.count()));
  }
  std::optional<Joined> joined;
  if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0) {
    const rdma_ud_param& found = event->param.ud;
    joined.emplace();
    joined->group = {found.ah_attr.grh.dgid, found.ah_attr.dlid};
    joined->address = device_.MakeAddress(found.ah_attr);
    joined->queue_pair = found.qp_num;
    joined->key = found.qkey;
    if (!joined->address) {
      *why = StrCat("no address handle: ", ErrnoText(errno));
      joined.reset();
    }
  } else {
    *why = event->status < 0 ? ErrnoText(-event->status) : rdma_event_str(event->event);
  }
  rdma_ack_cm_event(event);
  return joined;
}

bool VerbsGroups::TakeLoss(NodeId* of) {
  rdma_cm_event* event = nullptr;
  bool lost = false;
  while (!lost && rdma_get_cm_event(channel_.get(), &event) == 0) {
    lost = event->event == RDMA_CM_EVENT_MULTICAST_ERROR;
    if (lost) *of = NodeOf(*event);
    rdma_ack_cm_event(event);
  }
  return lost;
}

}  // namespace millrace::inline transport
