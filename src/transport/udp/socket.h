// A bound UDP socket, and what the kernel can do for it. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_SOCKET_H_
#define MILLRACE_TRANSPORT_UDP_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "transport/inet_address.h"
#include "transport/udp/checksum_errors.h"

namespace millrace {

struct UdpSocketOptions {
  std::string address;         // this node's: HOST:PORT or [IPV6]:PORT; port 0: any
  std::string interface = {};  // if not empty, datagrams pass through this one only
  // Asked of the kernel, which may grant less; from 4096 to 2^30.
  int64_t receive_buffer_bytes = 4 << 20;
  int64_t send_buffer_bytes = 128 << 10;
  bool fragment = false;  // datagrams longer than the MTU go out in fragments
  // Segmentation and coalescing by the kernel or the device, where there is such.
  bool gso = true, gro = true;
};

class UdpSocket {
 public:
  // Throws Error with one line that names the option and its value.
  explicit UdpSocket(const UdpSocketOptions& options);

  int fd() const { return fd_.get(); }
  const InetAddress& local() const { return local_; }  // with the port that it has
  bool gso() const { return gso_; }                    // the kernel takes UDP_SEGMENT
  bool gro() const { return gro_; }                    // UDP_GRO is on
  bool fragments() const { return options_.fragment; }
  // Bytes of queued datagrams, with the kernel's overhead, that it really holds.
  size_t receive_buffer_bytes() const { return receive_buffer_bytes_; }

  // The longest payload of a datagram that goes to `peer` in one piece now. Throws
  // Error, beginning with `field`, if there is no route.
  size_t PathPayloadBytes(const std::string& field, const InetAddress& peer) const;

  // Of datagrams that the kernel dropped for this socket.
  UdpChecksumErrors& checksum_errors() { return checksum_errors_; }

  // Takes the errors that ICMP left for this socket off its queue, which would be
  // reported by every later call otherwise.
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
  FileDescriptor probe_;  // connected to one peer after the other, to ask about the paths
  InetAddress local_;
  bool gso_ = false, gro_ = false;
  size_t receive_buffer_bytes_ = 0;
  UdpChecksumErrors checksum_errors_;
};

// No datagram has a longer payload.
inline constexpr size_t kMostUdpPayloadBytes = 65507;

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_SOCKET_H_
