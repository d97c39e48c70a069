// Number of bytes that a frame occupies on a medium: transport prefix, network headers, minimum
// packet length.
#ifndef MILLRACE_TEST_SIM_FABRIC_WIRE_H_
#define MILLRACE_TEST_SIM_FABRIC_WIRE_H_

#include <cstdint>
#include <string>

namespace millrace::sim {

// Plain value. All sizes in bytes.
struct Wire {
  std::string name;
  // Transport prefix before each frame, and the multiple to which a datagram is padded.
  int64_t prefix_bytes = 0, align = 1;
  // Length of a credit after the prefix.
  int64_t credit_bytes = 8;
  // Overhead of each datagram at the port: headers, checksums, and on Ethernet also the preamble
  // and the gap between frames.
  int64_t around_bytes = 0;
  int64_t min_bytes = 0;  // minimum length of a datagram, overhead included
  // Longest exchange frame that fits one datagram. No transport accepts longer frames; here they
  // count as several datagrams.
  int64_t max_frame_bytes = 0;
  bool multicasts = false;  // the switch copies a frame to all peers

  // Bytes on the medium of a frame of `frame_bytes` (at least 0).
  int64_t BytesOf(int64_t frame_bytes) const;
  int64_t CreditBytes() const { return Datagram(prefix_bytes + credit_bytes); }

 private:
  int64_t Datagram(int64_t bytes) const;
};

// The verbs transport with a path MTU of 4096 bytes, over IPv4.
Wire RoceWire();
Wire InfinibandWire();
// The udp transport over IPv4 with jumbo frames (MTU 9000).
Wire UdpWire();
// Returns the wire "roce", "infiniband" or "udp". Throws Error for any other name.
Wire WireNamed(const std::string& name);

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FABRIC_WIRE_H_
