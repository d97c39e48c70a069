#include "test/netns/bad_switch.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "transport/packet/wire.h"

namespace millrace::test {
namespace {

constexpr size_t kMaxBytes = 65536;
constexpr int kMaxOvertakers = 32;
// Poll timeout; when it expires, nothing overtakes the held frames any more and they are sent.
constexpr int kTimeoutMs = 3;
// Capacity of the sample for forgeries, and one in how many frames replaces an entry once it is
// full.
constexpr size_t kMaxCarried = 512;
constexpr uint64_t kCarriedOf = 64;

std::string PortOf(size_t machine) { return StrCat("port", machine); }

// Without checksum offload a device cannot use segmentation offload: the kernel does both in
// software before it hands over a packet.
void SendWithChecksums(const std::string& device) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_value value = {ETHTOOL_STXCSUM, 0};
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  if (ioctl(socket.get(), SIOCETHTOOL, &request) != 0) {
    throw Error(device, ": checksums cannot be turned on: ", ErrnoText(errno));
  }
}

FileDescriptor OpenPort(const std::string& device) {
  FileDescriptor port(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int on = 1, buffer = 16 << 20;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  packet_mreq open_ear{};
  open_ear.mr_ifindex = address.sll_ifindex;
  open_ear.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(port.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0 ||
      setsockopt(port.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
      setsockopt(port.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &open_ear, sizeof(open_ear)) != 0 ||
      bind(port.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw Error(device, ": no raw socket: ", ErrnoText(errno));
  }
  return port;
}

// Offset of what follows the ports of a TCP segment.
constexpr size_t kTcpContent = sizeof(EthernetHeader) + 20 + 4;

// Offset of the first byte that may be damaged; 0 if the frame must be left alone.
size_t BeginOfContent(const std::vector<uint8_t>& frame) {
  constexpr size_t kIp = sizeof(EthernetHeader), kUdp = kIp + 20;
  if (frame.size() <= kUdp + 8) return 0;
  const auto type = static_cast<uint16_t>(frame[12] << 8 | frame[13]);
  if (type == kPacketEtherType) return kIp;
  // An IP header without options.
  if (type != ETH_P_IP || frame[kIp] != 0x45) return 0;
  if (frame[kIp + 9] == IPPROTO_TCP) return kTcpContent;
  return frame[kIp + 9] == IPPROTO_UDP ? kUdp + 8 : 0;
}

void PutBigEndian(size_t value, uint8_t* at) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

// Adjusts the IP and UDP headers to the frame's length; sets the UDP checksum to "not computed".
void FitUdpHeaders(std::vector<uint8_t>* frame) {
  uint8_t* const ip = frame->data() + sizeof(EthernetHeader);
  uint8_t* const udp = ip + 20;
  const size_t ip_bytes = frame->size() - sizeof(EthernetHeader);
  PutBigEndian(ip_bytes, ip + 2);
  PutBigEndian(ip_bytes - 20, udp + 4);
  PutBigEndian(0, udp + 6);
  PutBigEndian(0, ip + 10);
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(ip[i] << 8 | ip[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  PutBigEndian(~sum & 0xffff, ip + 10);
}

}  // namespace

BadSwitch::BadSwitch(const Network& network, const Harm& harm, uint64_t seed)
    : network_(network),
      rng_(seed, {0xbad}),
      harms_(static_cast<size_t>(network.machines() * network.machines()), harm),
      wanted_harms_(harms_) {
  for (int machine = 0; machine < network_.machines(); ++machine) {
    network_.Inside(machine, [&] { SendWithChecksums(Network::DeviceOf(machine)); });
    network_.Run(network_.bridge(), {"ip", "link", "set", PortOf(machine), "nomaster"});
  }
  network_.Inside(network_.bridge(), [&] {
    for (int machine = 0; machine < network_.machines(); ++machine) {
      ports_.push_back(OpenPort(PortOf(machine)));
    }
  });
  thread_ = std::thread([this] { Pass(); });
}

BadSwitch::~BadSwitch() {
  stop_ = true;
  thread_.join();
}

void BadSwitch::SetHarm(int from, int to, const Harm& harm) {
  std::lock_guard lock(mutex_);
  wanted_harms_[LinkOf(static_cast<size_t>(from), static_cast<size_t>(to))] = harm;
  changed_ = true;
}

void BadSwitch::Forge(Forgery kind, int frames) {
  std::lock_guard lock(mutex_);
  orders_.push_back({kind, frames});
  changed_ = true;
}

void BadSwitch::Pass() {
  std::vector<pollfd> polled;
  for (const FileDescriptor& port : ports_) polled.push_back({port.get(), POLLIN, 0});
  while (!stop_) {
    if (poll(polled.data(), polled.size(), kTimeoutMs) == 0) SendHeld(true);
    for (size_t port = 0; port < ports_.size(); ++port) {
      if (polled[port].revents != 0) Read(port);
    }
    ObeyOthers();
  }
}

void BadSwitch::ObeyOthers() {
  if (!changed_.exchange(false)) return;
  std::vector<Order> orders;
  {
    std::lock_guard lock(mutex_);
    harms_ = wanted_harms_;
    orders.swap(orders_);
  }
  for (const Order& order : orders) SendForged(order);
}

// Forwards by destination MAC address to the machines of the Network; multicast goes to all.
void BadSwitch::Read(size_t port) {
  Frame buffer(kMaxBytes);
  for (int i = 0; i < 64; ++i) {
    const ssize_t bytes = recv(ports_[port].get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < static_cast<ssize_t>(sizeof(EthernetHeader))) return;
    const Frame frame(buffer.begin(), buffer.begin() + bytes);
    EthernetHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    for (size_t to = 0; to < ports_.size(); ++to) {
      const bool for_all = header.to.bytes[0] & 1;
      const bool for_it = header.to == *ParseMacAddress(Network::MacOf(static_cast<int>(to)));
      if (to != port && (for_all || for_it)) Harass(frame, port, to);
    }
    SendHeld(false);
  }
}

void BadSwitch::Harass(const Frame& frame, size_t from, size_t to) {
  const Harm& harm = harms_[LinkOf(from, to)];
  if (harm.cut) {
    ++counts_.cut;
    return;
  }
  const size_t content = BeginOfContent(frame);
  if (content == 0) return Send(frame, to);
  if (content != kTcpContent) Remember(frame, to);
  if (harm.max_bytes != 0 && frame.size() > harm.max_bytes) {
    ++counts_.too_long;
    return;
  }
  if (Falls(harm.lose)) {
    ++counts_.lost;
    return;
  }
  Frame damaged;
  if (Falls(harm.damage)) Damage(&(damaged = frame), content);
  const Frame& passes = damaged.empty() ? frame : damaged;
  if (Falls(harm.reorder)) {
    ++counts_.reordered;
    held_.push_back({passes, to, 1 + static_cast<int>(rng_.Below(kMaxOvertakers))});
    return;
  }
  Send(passes, to);
  if (Falls(harm.duplicate)) {
    ++counts_.duplicated;
    Send(passes, to);
  }
}

void BadSwitch::Damage(Frame* frame, size_t begin) {
  const size_t at = begin + rng_.Below(frame->size() - begin);
  (*frame)[at] ^= static_cast<uint8_t>(1 + rng_.Below(255));
  const bool udp = begin > kTcpContent;
  if (begin == kTcpContent || (udp && Falls(0.5))) {
    ++counts_.damaged;
    return;
  }
  ++counts_.damaged_unseen;
  if (udp) (*frame)[begin - 2] = (*frame)[begin - 1] = 0;  // "not computed"
}

void BadSwitch::Send(const Frame& frame, size_t to) {
  // A full socket queue loses the frame, as on any switch.
  if (send(ports_[to].get(), frame.data(), frame.size(), MSG_DONTWAIT) >= 0) ++counts_.passed;
}

void BadSwitch::SendHeld(bool all) {
  for (Held& each : held_) --each.passes;
  for (size_t i = 0; i < held_.size();) {
    if (!all && held_[i].passes > 0) {
      ++i;
      continue;
    }
    Send(held_[i].frame, held_[i].to);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void BadSwitch::Remember(const Frame& frame, size_t to) {
  if (++seen_ % kCarriedOf != 0 && carried_.size() == kMaxCarried) return;
  if (carried_.size() < kMaxCarried) {
    carried_.push_back({frame, to});
  } else {
    carried_[rng_.Below(kMaxCarried)] = {frame, to};
  }
}

// The harm of the links does not apply to forged frames.
void BadSwitch::SendForged(const Order& order) {
  for (int i = 0; i < order.frames && !carried_.empty(); ++i) {
    const Carried& carried = carried_[rng_.Below(carried_.size())];
    Send(Forged(order.kind, carried.frame), carried.to);
    ++counts_.forged;
  }
}

BadSwitch::Frame BadSwitch::Forged(Forgery kind, const Frame& frame) {
  Frame forged = frame;
  if (kind == Forgery::kReplay) return forged;
  const size_t content = BeginOfContent(frame);
  forged.resize(content + rng_.Below(frame.size() - content));
  if (kind == Forgery::kRandom) {
    for (size_t i = content; i < forged.size(); ++i) forged[i] = static_cast<uint8_t>(rng_.Next());
  }
  if (content > sizeof(EthernetHeader)) FitUdpHeaders(&forged);
  return forged;
}

}  // namespace millrace::test
