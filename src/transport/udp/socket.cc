#include "transport/udp/socket.h"

#include <net/if.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "transport/check_range.h"
#include "transport/socket_option.h"

namespace millrace::inline transport {
UdpSocket::UdpSocket(const UdpSocketOptions& options) : options_(options) {
  ExpectInteger("udp", "receive_buffer_bytes", options.receive_buffer_bytes, 4096, 1 << 30);
  ExpectInteger("udp", "send_buffer_bytes", options.send_buffer_bytes, 4096, 1 << 30);
  local_ = ResolveUdpAddress("transport udp: address", options.address);
  Open();
  SetBuffers();
  SetPathMtuDiscovery();
  SetOffloads();
  Bind();
  OpenProbe();
  checksum_errors_ = UdpChecksumErrors(local_.is_v6());
}

void UdpSocket::Open() {
  fd_ = FileDescriptor(
      socket(local_.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (fd() < 0) {
    throw Error("transport udp: address=", options_.address, ": ", ErrnoText(errno));
  }
  if (local_.is_v6()) SetSocketInt(fd(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
}

void UdpSocket::Bind() {
  const std::string& interface = options_.interface;
  if (!interface.empty()) {
    if (interface.size() >= IFNAMSIZ || if_nametoindex(interface.c_str()) == 0) {
      throw Error("transport udp: interface=", interface, ": there is no such interface");
    }
    if (setsockopt(fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), interface.size()) != 0) {
      throw Error("transport udp: interface=", interface, ": ", ErrnoText(errno));
    }
  }
  if (bind(fd(), &local_.any, local_.length()) != 0) {
    throw Error("transport udp: address=", options_.address, ": ", ErrnoText(errno));
  }
  socklen_t length = sizeof(local_.v6);
  getsockname(fd(), &local_.any, &length);
}

void UdpSocket::SetBuffers() {
  SetSocketBuffer(fd(), SO_RCVBUF, SO_RCVBUFFORCE, options_.receive_buffer_bytes);
  SetSocketBuffer(fd(), SO_SNDBUF, SO_SNDBUFFORCE, options_.send_buffer_bytes);
  receive_buffer_bytes_ = std::max(GetSocketInt(fd(), SOL_SOCKET, SO_RCVBUF), 0);
  SetSocketInt(fd(), SOL_SOCKET, SO_RXQ_OVFL, 1);
}

void UdpSocket::SetPathMtuDiscovery() {
  const bool fragment = options_.fragment;
  if (local_.is_v6()) {
    SetSocketInt(fd(), IPPROTO_IPV6, IPV6_MTU_DISCOVER,
                 fragment ? IPV6_PMTUDISC_WANT : IPV6_PMTUDISC_DO);
    SetSocketInt(fd(), IPPROTO_IPV6, IPV6_RECVERR, 1);
  } else {
    SetSocketInt(fd(), IPPROTO_IP, IP_MTU_DISCOVER, fragment ? IP_PMTUDISC_WANT : IP_PMTUDISC_DO);
    // Without this option, a full device queue drops datagrams without an error.
    SetSocketInt(fd(), IPPROTO_IP, IP_RECVERR, 1);
  }
}

void UdpSocket::SetOffloads() {
  gso_ = options_.gso && SetSocketInt(fd(), IPPROTO_UDP, UDP_SEGMENT, 0);
  gro_ = options_.gro && SetSocketInt(fd(), IPPROTO_UDP, UDP_GRO, 1);
}

void UdpSocket::OpenProbe() {
  probe_ = FileDescriptor(socket(local_.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  const std::string& interface = options_.interface;
  if (!interface.empty()) {
    setsockopt(probe_.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), interface.size());
  }
  // The route may depend on the source address.
  InetAddress from = local_;
  (from.is_v6() ? from.v6.sin6_port : from.v4.sin_port) = 0;
  if (bind(probe_.get(), &from.any, from.length()) != 0) {
    throw Error("transport udp: address=", options_.address, ": ", ErrnoText(errno));
  }
}

size_t UdpSocket::PathPayloadBytes(const std::string& field, const InetAddress& peer) const {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  connect(probe_.get(), &nobody, sizeof(nobody));
  if (connect(probe_.get(), &peer.any, peer.length()) != 0) {
    const int reason = errno;
    const std::string line =
        StrCat(field, ": no route from ", local_.Text(), ": ", ErrnoText(reason));
    if (reason == ENETUNREACH || reason == ENETDOWN || reason == EHOSTUNREACH) {
      throw NetworkDownError(line);
    }
    throw Error(line);
  }
  const int mtu = peer.is_v6() ? GetSocketInt(probe_.get(), IPPROTO_IPV6, IPV6_MTU)
                               : GetSocketInt(probe_.get(), IPPROTO_IP, IP_MTU);
  if (mtu <= static_cast<int>(peer.header_bytes())) {
    throw Error(field, ": the path's MTU is not known: ", ErrnoText(errno));
  }
  return std::min(mtu - peer.header_bytes(), kMaxUdpPayloadBytes);
}

void UdpSocket::ForgetErrors() {
  // Clear the error queue, then the pending error of the next call.
  for (int i = 0; i < 64; ++i) {
    msghdr message{};
    if (recvmsg(fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
  }
  GetSocketInt(fd(), SOL_SOCKET, SO_ERROR);
}

}  // namespace millrace::inline transport
