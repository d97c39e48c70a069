// A bound UDP socket and the kernel features available for it. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_SOCKET_H_
#define MILLRACE_TRANSPORT_UDP_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "millrace/file_descriptor.h"
#include "transport/inet_address.h"
#include "transport/udp/checksum_errors.h"

namespace millrace::inline transport {

struct UdpSocketOptions {
  std::string address;         // this node's: HOST:PORT or [IPV6]:PORT; port 0: any
  std::string interface = {};  // not empty: use only this network interface
  // Requested from the kernel, which may grant less; 4096 to 2^30.
  int64_t receive_buffer_bytes = 4 << 20;
  int64_t send_buffer_bytes = 128 << 10;
  bool fragment = false;  // datagrams longer than the MTU are sent as IP fragments
  // Use segmentation and coalescing by the kernel or the device, if available.
  bool gso = true, gro = true;
};

class UdpSocket {
 public:
  // Throws Error with one line that names the option and its value.
  explicit UdpSocket(const UdpSocketOptions& options);

  int fd() const { return fd_.get(); }
  const InetAddress& local() const { return local_; }  // with the port assigned
  bool gso() const { return gso_; }                    // UDP_SEGMENT is available
  bool gro() const { return gro_; }                    // UDP_GRO is on
  bool fragments() const { return options_.fragment; }
  // Granted size: bytes of queued datagrams, including the kernel's overhead.
  size_t receive_buffer_bytes() const { return receive_buffer_bytes_; }

  // Largest payload of a datagram that currently reaches `peer` without fragmentation. Throws
  // Error that begins with `field` if there is no route or the path's MTU is unknown.
  size_t PathPayloadBytes(const std::string& field, const InetAddress& peer) const;

  // Classifies datagrams that the kernel dropped for this socket.
  UdpChecksumErrors& checksum_errors() { return checksum_errors_; }

  // Clears the errors that ICMP left on this socket; otherwise later calls would report them.
  void ForgetErrors();

 private:
  void Open();
  void Bind();
  void OpenProbe();
  void SetBuffers();
  void SetPathMtuDiscovery();
  void SetOffloads();

  UdpSocketOptions options_;
  FileDescriptor fd_;
  FileDescriptor probe_;  // connected to one peer at a time, to read its path MTU
  InetAddress local_;
  bool gso_ = false, gro_ = false;
  size_t receive_buffer_bytes_ = 0;
  UdpChecksumErrors checksum_errors_;
};

// Largest payload of a datagram: the limit of IPv4, used for IPv6 too.
inline constexpr size_t kMaxUdpPayloadBytes = 65507;

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_SOCKET_H_
