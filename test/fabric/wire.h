// How many bytes a frame takes on a medium: what the transports put before it, what the
// network puts around it, and how long a packet is at least.
#ifndef MILLRACE_TEST_FABRIC_WIRE_H_
#define MILLRACE_TEST_FABRIC_WIRE_H_

#include <cstdint>
#include <string>

namespace millrace::fabric {

// A plain value.
struct Wire {
  std::string name;
  // Of the transport: before each frame, and what a datagram's length is a multiple of.
  int64_t prefix_bytes = 0, align = 1;
  // What a credit has behind the prefix.
  int64_t credit_bytes = 8;
  // Around each datagram, all that passes the port: headers, checksums, on Ethernet the
  // preamble and the gap between frames as well.
  int64_t around_bytes = 0;
  int64_t least_bytes = 0;  // of a datagram with what is around it
  // The longest frame of the exchange that a datagram holds. Those that are longer, which
  // no transport takes, count as if they were cut.
  int64_t most_frame_bytes = 0;
  bool multicasts = false;  // a switch copies frames to all

  // For frames of `frame_bytes`, 0 at least.
  int64_t BytesOf(int64_t frame_bytes) const;
  int64_t CreditBytes() const { return Datagram(prefix_bytes + credit_bytes); }

 private:
  int64_t Datagram(int64_t bytes) const;
};

// The verbs transport at a path MTU of 4096 bytes, over IPv4.
Wire RoceWire();
Wire InfinibandWire();
// The udp transport over IPv4, jumbo frames (an MTU of 9000).
Wire UdpWire();
// By name: "roce", "infiniband" or "udp". Throws Error for another.
Wire WireNamed(const std::string& name);

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_WIRE_H_
