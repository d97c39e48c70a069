#include "transport/verbs/device.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

constexpr int kListenBacklog = 256;

// Overhead of a datagram. RoCE v2: Ethernet, IP and UDP headers, base (12) and datagram (8)
// transport headers, invariant CRC (4). InfiniBand: local and global route headers, the same
// transport bytes, and the variant CRC (2).
constexpr size_t kTransportBytes = 12 + 8 + 4;
constexpr size_t kEthernetBytes = 14, kUdpBytes = 8, kIpv4Bytes = 20, kIpv6Bytes = 40;
constexpr size_t kLocalRouteBytes = 8, kGlobalRouteBytes = 40, kLinkChecksumBytes = 2;

// All addresses that identify an RDMA port: "10.0.0.1 (rxe0), ...".
std::string AddressList(rdma_event_channel* channel) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "none";
  std::string list;
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr) continue;
    InetAddress address;
    const int family = each->ifa_addr->sa_family;
    if (family == AF_INET) {
      std::memcpy(&address.v4, each->ifa_addr, sizeof(address.v4));
    } else if (family == AF_INET6) {
      std::memcpy(&address.v6, each->ifa_addr, sizeof(address.v6));
      if (IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr)) continue;  // every port has one
    } else {
      continue;
    }
    const CmId id = MakeCmId(channel, nullptr);
    if (rdma_bind_addr(id.get(), &address.any) != 0 || !id->verbs) continue;
    std::string text = address.Text();
    text.resize(text.rfind(':'));
    list +=
        StrCat(list.empty() ? "" : ", ", text, " (", ibv_get_device_name(id->verbs->device), ")");
  }
  freeifaddrs(all);
  return list.empty() ? "none, as no RDMA device of this machine has an address" : list;
}

size_t OverheadOf(bool ethernet, bool ipv6) {
  if (!ethernet) {
    return kLocalRouteBytes + kGlobalRouteBytes + kTransportBytes + kLinkChecksumBytes;
  }
  return kEthernetBytes + (ipv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes + kTransportBytes;
}

}  // namespace

void ThrowVerbsError(const std::string& device, const std::string& what, int error) {
  const std::string start = StrCat("transport verbs: ", device, ": ", what, ": ");
  if (error == EACCES || error == EPERM) {
    throw Error(start, ErrnoText(error),
                ": expected read and write permission for /dev/infiniband/*");
  }
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY) {
    throw Error(start, "this process may lock ", limit.rlim_cur / 1024,
                " KiB of memory: expected more (ulimit -l unlimited, memlock in "
                "/etc/security/limits.conf, LimitMEMLOCK=infinity of a service)");
  }
  throw Error(start, ErrnoText(error));
}

CmChannel OpenCmChannel() {
  CmChannel channel(rdma_create_event_channel());
  if (!channel) {
    const int error = errno;
    if (error == ENODEV || error == ENOENT) {
      throw Error(
          "transport verbs: this machine has no RDMA device: expected one (ibv_devices lists "
          "them) and the kernel module rdma_ucm, or use transport udp");
    }
    ThrowVerbsError("rdma_cm", "no event channel", error);
  }
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

CmId MakeCmId(rdma_event_channel* channel, void* context) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, context, RDMA_PS_UDP) != 0) {
    ThrowVerbsError("rdma_cm", "no identifier", errno);
  }
  return CmId(id);
}

VerbsDevice::VerbsDevice(const InetAddress& address)
    : local_(address), channel_(OpenCmChannel()), listener_(MakeCmId(channel_.get(), nullptr)) {
  const std::string field = StrCat("transport verbs: address=", address.Text(), ": ");
  if (rdma_bind_addr(listener_.get(), &local_.any) != 0) {
    const int error = errno;
    if (error == ENODEV || error == EADDRNOTAVAIL) {
      throw Error(field, "no RDMA device has this address: expected one of ",
                  AddressList(channel_.get()));
    }
    throw Error(field, ErrnoText(error));
  }
  if (!listener_->verbs) {
    throw Error(field, "this is no device's: expected one of ", AddressList(channel_.get()));
  }
  name_ = StrCat(ibv_get_device_name(listener_->verbs->device), " port ", int{listener_->port_num});
  // All endpoints of a process share librdmacm's own context and its events, so open another one.
  context_.reset(ibv_open_device(listener_->verbs->device));
  if (!context_) ThrowVerbsError(name_, "it cannot be opened", errno);
  ibv_port_attr port{};
  ibv_device_attr device{};
  int error = ibv_query_port(context_.get(), listener_->port_num, &port);
  if (error == 0) error = ibv_query_device(context_.get(), &device);
  if (error != 0) ThrowVerbsError(name_, "it does not say what it is", error);
  if (port.state != IBV_PORT_ACTIVE) {
    throw Error(field, name_, " is ", ibv_port_state_str(port.state),
                ": expected a port that is active (cable, subnet manager, ip link set ... up)");
  }
  mtu_ = size_t{128} << port.active_mtu;
  overhead_bytes_ = OverheadOf(port.link_layer == IBV_LINK_LAYER_ETHERNET, local_.is_v6());
  max_requests_ = static_cast<size_t>(std::min(device.max_qp_wr, device.max_cqe));
  domain_.reset(ibv_alloc_pd(context_.get()));
  if (!domain_) ThrowVerbsError(name_, "no protection domain", errno);
  if (rdma_listen(listener_.get(), kListenBacklog) != 0) throw Error(field, ErrnoText(errno));
  const uint16_t listens_at = rdma_get_src_port(listener_.get());
  (local_.is_v6() ? local_.v6.sin6_port : local_.v4.sin_port) = listens_at;
  fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
}

bool VerbsDevice::IsActive() const {
  ibv_port_attr attributes{};
  return ibv_query_port(context_.get(), port(), &attributes) == 0 &&
         attributes.state == IBV_PORT_ACTIVE;
}

bool VerbsDevice::FirstAttributes(ibv_qp_attr* attributes, int* mask) const {
  *attributes = {};
  attributes->qp_state = IBV_QPS_INIT;
  return rdma_init_qp_attr(listener_.get(), attributes, mask) == 0;
}

MemoryRegion VerbsDevice::Register(std::span<const std::byte> memory, const char* what) const {
  MemoryRegion region = TryRegister(memory);
  if (!region) {
    const int error = errno;
    ThrowVerbsError(name_, StrCat(memory.size() / 1024, " KiB for ", what), error);
  }
  return region;
}

MemoryRegion VerbsDevice::TryRegister(std::span<const std::byte> memory) const {
  return MemoryRegion(ibv_reg_mr(domain_.get(), const_cast<std::byte*>(memory.data()),
                                 memory.size(), IBV_ACCESS_LOCAL_WRITE));
}

MemoryRegion VerbsDevice::TryRegisterDmaBuf(const DmaBuf& file,
                                            std::span<const std::byte> memory) const {
  return MemoryRegion(ibv_reg_dmabuf_mr(domain_.get(), file.offset, memory.size(),
                                        reinterpret_cast<uintptr_t>(memory.data()), file.file.get(),
                                        IBV_ACCESS_LOCAL_WRITE));
}

AddressHandle VerbsDevice::MakeAddress(const ibv_ah_attr& attributes) const {
  ibv_ah_attr copy = attributes;
  return AddressHandle(ibv_create_ah(domain_.get(), &copy));
}

}  // namespace millrace::inline transport
