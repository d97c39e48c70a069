// The UDP link: combines socket, peer addresses, send batch and receive buffers.
#ifndef MILLRACE_TRANSPORT_UDP_LINK_H_
#define MILLRACE_TRANSPORT_UDP_LINK_H_

#include "transport/datagram_link.h"
#include "transport/inet_address.h"
#include "transport/udp/batch.h"
#include "transport/udp/receiver.h"
#include "transport/udp/socket.h"

namespace millrace::inline transport {

// Parameters determined by ConnectUdp.
struct UdpPlan {
  std::map<NodeId, InetAddress> peers;  // some may be unknown
  size_t max_segment_bytes = 0;         // largest datagram that needs no IP fragments
  size_t max_datagram_bytes = 0;        // largest datagram
  size_t receive_buffers = 0;
};

class UdpLink : public DatagramLink {
 public:
  UdpLink(UdpSocket socket, const UdpPlan& plan);

  bool Reaches(size_t peer) const override { return peers_[peer].is_known(); }
  std::string SetPeerAddress(size_t peer, const std::string& address) override;
  void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) override;
  Flushed Flush() override { return batch_.Flush(); }
  bool SendCredit(size_t peer, const ControlMessage& credit) override;
  bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) override;
  bool Read(Sink* sink) override;
  void GiveBack(uint64_t position) override { receiver_.GiveBack(position); }
  uint64_t head() const override { return receiver_.head(); }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {receiver_.memory()};
  }
  Polled Poll(int wake, int64_t ns, bool wants_room) override;

 private:
  bool SendControl(size_t peer, DatagramKind kind, const ControlMessage& message);
  void ClassifyDrops(Sink* sink);
  void TakeArrival(const UdpArrival& arrival, Sink* sink);
  void TakeDatagram(std::span<const std::byte> bytes, uint64_t position, Sink* sink);

  UdpSocket socket_;
  const size_t max_datagram_bytes_;
  InetPeers peers_;
  UdpBatch batch_;
  UdpReceiver receiver_;
  size_t last_peer_ = 0;       // sender of the last datagram
  uint64_t unclassified_ = 0;  // kernel drops not yet classified and counted
  uint32_t reads_ = 0;         // reads while unclassified_ > 0
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_LINK_H_
