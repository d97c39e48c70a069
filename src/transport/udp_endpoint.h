// One node's end of the UDP transport: sockets and windows put together.
#ifndef MILLRACE_TRANSPORT_UDP_ENDPOINT_H_
#define MILLRACE_TRANSPORT_UDP_ENDPOINT_H_

#include <poll.h>

#include <atomic>
#include <vector>

#include "transport/transport.h"
#include "transport/udp_batch.h"
#include "transport/udp_inbox.h"
#include "transport/udp_peers.h"
#include "transport/udp_receiver.h"
#include "transport/udp_socket.h"

namespace millrace {

// What ConnectUdp has found out.
struct UdpPlan {
  TransportInfo info;
  std::map<NodeId, UdpAddress> peers;
  size_t most_segment_bytes = 0;   // of a datagram that needs no fragments
  size_t most_datagram_bytes = 0;  // of any
  uint32_t window_frames = 0;
  size_t receive_buffers = 0;
  int64_t silence_ns = 0;
  const Clock* clock = nullptr;
};

class UdpEndpoint : public Transport {
 public:
  UdpEndpoint(UdpSocket socket, const UdpPlan& plan);

  SendResult Send(std::span<const OutFrame> frames) override;
  uint64_t Reclaim() override { return counters_.frames_sent(); }
  size_t Receive(std::span<InFrame> frames) override;
  void Release() override;
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override;
  void Wake() override;

 private:
  // Sending (udp_send.cc). How a frame was taken in:
  enum class Taken { kBatched, kDone, kBusy };
  bool CanEverSend(const OutFrame& frame) const;
  Taken TakeUnicast(const OutFrame& frame);
  Taken TakeMulticast(const OutFrame& frame);
  // Whether a frame may go to the peer now, after a look at what it has said.
  bool HasRoom(size_t peer);
  void AddToBatch(size_t peer, const OutFrame& frame);
  // Sends the batch. Frames that are not done with have given their numbers back.
  UdpBatch::Flushed Flush();
  size_t FlushBatch();  // and counts its frames; how many are done with
  void DropToSilent(size_t peer);
  // Sends to the peers in held_to_, and leaves in it those still to be sent to.
  void SendToHeld(const OutFrame& frame);
  void Hold(const OutFrame& frame);
  bool SendHeld();  // false while a multicast is still held

  // Receiving (udp_receive.cc).
  // Reads once; false if nothing was there or there was nowhere to put it.
  bool Pump();
  void TakeArrival(const UdpArrival& arrival);
  void TakeDatagram(size_t peer, std::span<const std::byte> datagram, uint64_t position);
  void TakeCredit(UdpPeer* peer, std::span<const std::byte> datagram);
  void WantCredit(size_t peer);
  void SendCredits();
  void SendProbe(size_t peer);

  // Waiting (udp_endpoint.cc).
  // What is so now.
  WaitResult Look(WaitFor what);
  bool RoomAppeared();
  // Asks the peers that it is time to ask; when the next is due.
  int64_t ProbePeers(int64_t now_ns);
  // Sleeps until the kernel has something to say, and takes it in.
  void Sleep(int64_t ns);

  UdpSocket socket_;
  const Clock& clock_;
  const FileDescriptor wake_;  // an eventfd: readable once Wake was called
  std::atomic<bool> woken_{false};
  const uint16_t session_;
  UdpPeers peers_;
  UdpBatch batch_;
  UdpReceiver receiver_;
  UdpInbox inbox_;
  size_t last_peer_ = 0;  // the one that the last datagram came from
  std::vector<size_t> credits_wanted_;
  // The kernel had no room for a frame; of_device: nor will it say when there is.
  bool kernel_full_ = false, device_full_ = false;
  // A multicast that some peers have been sent, and these have not yet.
  std::vector<size_t> held_to_;
  std::vector<std::byte> held_;
  size_t held_bytes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_ENDPOINT_H_
