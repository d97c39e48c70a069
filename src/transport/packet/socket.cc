#include "transport/packet/socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.h"
#include "transport/packet/wire.h"

namespace millrace::inline transport {
namespace {

constexpr uint32_t OffsetOf(size_t in_prefix) {
  return static_cast<uint32_t>(sizeof(EthernetHeader) + in_prefix);
}

}  // namespace

FileDescriptor OpenPacketSocket() {
  // Protocol 0: nothing arrives before the filter is attached.
  FileDescriptor fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() >= 0) return fd;
  if (errno == EPERM || errno == EACCES) {
    throw Error(
        "transport packet: raw Ethernet frames need CAP_NET_RAW: grant it (setcap "
        "cap_net_raw+ep build/millrace), or run as root, or use transport udp");
  }
  throw Error("transport packet: no raw socket: ", ErrnoText(errno));
}

void BindPacketSocket(int fd, const PacketInterface& interface, const PacketFilter& filter) {
  // BPF loads 16-bit values as big-endian; the prefix is little-endian.
  const uint32_t group = htons(filter.group), node = htons(filter.node);
  const auto credit = static_cast<uint32_t>(DatagramKind::kCredit);
  constexpr uint8_t kDrop = 9;  // index of the last statement
  const uint8_t not_credit = filter.credits ? 1 : 0, is_credit = filter.credits ? 0 : 1;
  sock_filter program[] = {
      // Accept PACKET_HOST, PACKET_BROADCAST and PACKET_MULTICAST: drop frames for other hosts
      // and frames that this machine sends.
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_MULTICAST, kDrop - 2, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, OffsetOf(offsetof(PacketPrefix, group))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, group, 0, kDrop - 4),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, OffsetOf(offsetof(PacketPrefix, to))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, node, 0, kDrop - 6),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, OffsetOf(offsetof(PacketPrefix, kind))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, credit, is_credit, not_credit),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),  // the whole frame
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog attached = {sizeof(program) / sizeof(program[0]), program};
  const std::string field = StrCat("transport packet: interface=", interface.name, ": ");
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof(attached)) != 0) {
    throw Error(field, "no filter: ", ErrnoText(errno));
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(kPacketEtherType);
  address.sll_ifindex = interface.index;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw Error(field, ErrnoText(errno));
  }
}

namespace {

std::string Names(const std::vector<NetworkDevice>& devices) {
  std::string names;
  for (const NetworkDevice& device : devices) {
    if (!device.ethernet) continue;
    names += StrCat(names.empty() ? "" : ", ", device.name, " (", device.address->Text(), ")");
  }
  return names.empty() ? "none" : names;
}

}  // namespace

PacketInterface FindPacketInterface(const std::string& text) {
  const std::string field = StrCat("transport packet: interface=", text, ": ");
  const std::vector<NetworkDevice> devices = ListNetworkDevices();
  const auto address = ParseMacAddress(text);
  std::vector<NetworkDevice> found;
  for (const NetworkDevice& device : devices) {
    const bool is_it = address ? device.ethernet && device.address == address : device.name == text;
    if (is_it) found.push_back(device);
  }
  if (found.empty()) {
    throw Error(field, "there is no such interface: expected one of ", Names(devices));
  }
  if (found.size() > 1) {
    throw Error(field, "several have this address: expected a name, one of ", Names(found));
  }
  const NetworkDevice& device = found[0];
  if (device.loopback) {
    throw Error(field, "this is the loopback device: expected one of ", Names(devices),
                ", or transport udp");
  }
  if (!device.ethernet) {
    throw Error(field, "this is no Ethernet device: expected one of ", Names(devices));
  }
  if (!device.up) {
    throw NetworkDownError(field, "it is down: expected one that is up (ip link set ", device.name,
                           " up)");
  }
  if (device.mtu == 0) throw Error(field, "its MTU is not known: it has gone meanwhile");
  return {device.name, device.index, *device.address, device.mtu};
}

}  // namespace millrace::inline transport
