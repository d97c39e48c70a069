// The raw Ethernet link: two sockets on one interface. Frames and probes arrive in a ring, whose
// blocks the kernel hands over when they are full or have been open for a millisecond. Credits,
// which senders wait for, arrive without this delay at the other socket, which also sends.
#ifndef MILLRACE_TRANSPORT_PACKET_LINK_H_
#define MILLRACE_TRANSPORT_PACKET_LINK_H_

#include <sys/socket.h>

#include <array>
#include <map>
#include <vector>

#include "millrace/file_descriptor.h"
#include "transport/datagram_link.h"
#include "transport/packet/batch.h"
#include "transport/packet/ring.h"
#include "transport/packet/socket.h"
#include "transport/packet/wire.h"

namespace millrace::inline transport {

// Parameters determined by ConnectPacket.
struct PacketPlan {
  PacketInterface interface;
  NodeId node = 0;
  uint16_t group = 0;
  std::map<NodeId, MacAddress> peers;
  size_t block_bytes = 0, ring_blocks = 0;
  int64_t send_buffer_bytes = 0;
};

class PacketLink : public DatagramLink {
 public:
  // Throws Error with one line if the sockets cannot be opened.
  explicit PacketLink(const PacketPlan& plan);

  void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) override;
  Flushed Flush() override { return batch_.Flush(); }
  bool SendCredit(size_t peer, const ControlMessage& credit) override;
  bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) override;
  bool Read(Sink* sink) override;
  void GiveBack(uint64_t position) override { ring_.GiveBack(position); }
  uint64_t head() const override { return ring_.head(); }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {ring_.memory()};
  }
  Polled Poll(int wake, int64_t ns, bool wants_room) override;

 private:
  struct Peer {
    EthernetHeader ethernet;
    NodeId node;
  };
  static constexpr size_t kNone = SIZE_MAX;
  // Maximum credits per read, and bytes of each buffer.
  static constexpr size_t kCredits = 16, kCreditRoom = 64;

  PacketHead HeadFor(size_t peer, DatagramKind kind, uint16_t tag, size_t bytes,
                     uint32_t sequence) const;
  bool SendControl(size_t peer, DatagramKind kind, const ControlMessage& message);
  // Returns the result of Sink::Take; false if the packet was dropped.
  bool TakePacket(std::span<const std::byte> packet, uint64_t position, Sink* sink);
  bool ReadCredits(Sink* sink);

  const NodeId node_;
  const uint16_t group_;
  std::vector<Peer> peers_;
  std::vector<size_t> by_node_;  // kNone: not a peer
  const FileDescriptor socket_;  // sends, and receives credits
  PacketBatch batch_;
  PacketRing ring_;
  uint32_t blocks_read_ = 0;
  std::array<std::array<std::byte, kCreditRoom>, kCredits> credits_;
  std::array<iovec, kCredits> pieces_;
  std::array<mmsghdr, kCredits> headers_{};
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_LINK_H_
