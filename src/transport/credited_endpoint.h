// One node's end of a transport that carries datagrams over a link: numbers, windows
// of unconfirmed frames for each peer, credits and probes (stream_window.h). Where the
// link multicasts, frames to all nodes are a stream of their own, which is numbered once
// and confirmed by each peer; elsewhere they are fanned out. What the link's carrier is
// makes no other diff here.
#ifndef MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_
#define MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/completion_queue.h"
#include "transport/datagram_link.h"
#include "transport/receive_queue.h"
#include "transport/stream_window.h"
#include "transport/transport.h"

namespace millrace {

struct CreditedPlan {
  TransportInfo info;          // peers in the order of their ids
  uint32_t window_frames = 0;  // unconfirmed frames to and from each peer
  size_t inbox_frames = 0;     // most frames that lie in the link's buffers
  size_t most_unfinished = 1;  // frames that the link reads later, unless info.copies
  int64_t silence_ns = 0;      // a peer asked in vain for so long is taken to be gone
  const Clock* clock = nullptr;
};

class CreditedEndpoint : public Transport, private DatagramLink::Sink {
 public:
  // `link` knows the peers of plan.info. Throws Error if there are no descriptors left.
  CreditedEndpoint(std::unique_ptr<DatagramLink> link, const CreditedPlan& plan);

  SendResult Send(std::span<const OutFrame> frames) override;
  uint64_t Reclaim() override;
  size_t Receive(std::span<InFrame> frames) override;
  void Release() override;
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override;
  void Wake() override;
  // Whether frames can be sent to all peers: a link may have to find them first, and
  // learns that it has in the calls of the above.
  bool ReachesAll() const;
  bool RegisterMemory(std::span<const std::byte> memory) override {
    return link_->RegisterMemory(memory);
  }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return link_->ReceiveMemory();
  }

 private:
  // What goes to a peer and comes from there, under one numbering each.
  struct Stream {
    SendWindow send;
    ReceiveWindow receive;
    bool credit_wanted = false;  // is in the list of those to be sent
  };
  struct Peer {
    NodeId node;
    uint64_t session;  // of its endpoint, for probes to echo; 0: not known
    // What is addressed to one, and what was multicast.
    std::array<Stream, 2> streams;

    Stream& stream(bool to_all) { return streams[to_all ? 1 : 0]; }
  };
  struct StreamName {
    size_t peer;
    bool to_all;
  };
  struct Copy {
    size_t peer, frame;
  };

  // How often one call reads what has arrived, at most: it ends however much arrives.
  static constexpr int kMostLooks = 64;

  // Sending (windowed_send.cc). How a frame was taken in:
  enum class Taken { kBatched, kDone, kBusy };
  bool CanEverSend(const OutFrame& frame) const;
  bool IsFannedOut(const OutFrame& frame) const {
    return frame.to == kAllNodes && !info_.multicast;
  }
  Taken TakeOne(const OutFrame& frame);  // by one transmission
  Taken TakeUnicast(const OutFrame& frame);
  Taken TakeMulticast(const OutFrame& frame);
  size_t RunLength(std::span<const OutFrame> frames, size_t* live);
  // How many frames from the front were taken; 0: none could be.
  size_t TakeFannedOut(std::span<const OutFrame> frames);
  // Whether a frame may go to the peer now, after a look at what it has said.
  bool HasRoom(StreamName name);
  void AddToBatch(size_t peer, const OutFrame& frame);
  // Sends the batch. Frames that are not done with have given their numbers back.
  DatagramLink::Flushed Flush();
  // A stream's first frame is in the batch; asks about it after that.
  void Begin(size_t peer);
  void ProbeBegun();
  size_t FlushBatch();  // and counts its frames; how many are done with
  void GiveBackNumber(size_t peer);
  void DropToSilent(StreamName name);
  void DropToAllSilent();
  // Counts a frame as accepted, after all its transmissions.
  void Accept(const OutFrame& frame, uint64_t transmissions);
  uint64_t Finish();  // as Reclaim, without saying so
  // Makes the transmissions in copies_, of these frames; those that remain stay there.
  void SendCopies(std::span<const OutFrame> frames);
  void Hold(std::span<const OutFrame> frames);
  bool SendHeld();  // false while a multicast is still held

  // Receiving (windowed_receive.cc).
  // Reads once; false if nothing was there or there was nowhere to put it.
  bool Poll();
  bool Take(const Datagram& datagram) override;
  bool TakeFrame(const Datagram& datagram);
  void TakeCredit(size_t peer, const ControlMessage& credit);
  void TakeProbe(StreamName name, const ControlMessage& probe);
  // The peer has shown that it is there. Asks it about streams that it fell silent in, but for
  // one that it has just told of.
  void OnFrame(size_t peer, const Stream* told);
  void Drop(DropReason reason, uint64_t datagrams) override { counters_.Drop(reason, datagrams); }
  void Reached(size_t peer) override;
  void WantCredit(StreamName name);
  void SendCredits();
  void SendProbe(StreamName name);
  Stream& At(StreamName name) { return peers_[name.peer].stream(name.to_all); }
  // What the frames of this node's stream are told by.
  uint64_t SessionOf(bool to_all) const { return session_ ^ (to_all ? 1 : 0); }
  // Calls visit(name, stream) for each that is in use.
  template <typename Visit>
  void ForEachStream(Visit visit);

  // Waiting (windowed_endpoint.cc).
  // What is so now.
  WaitResult Look(WaitFor what);
  bool RoomAppeared();
  // Asks the peers that it is time to ask; when the next is due.
  int64_t ProbePeers(int64_t now_ns);
  // Sleeps until the kernel has something to say, and takes it in.
  void Sleep(int64_t ns);

  const std::unique_ptr<DatagramLink> link_;
  const Clock& clock_;
  const FileDescriptor wake_;  // an eventfd: readable once Wake was called
  std::atomic<bool> woken_{false};
  const uint64_t session_;
  std::vector<Peer> peers_;
  std::vector<size_t> by_node_;  // the index of a peer
  // The peers that the frames added to the link since the last Flush go to.
  std::array<size_t, DatagramLink::kMostBatch> batch_;
  size_t batch_size_ = 0;
  ReceiveQueue receive_queue_;
  std::vector<StreamName> credits_wanted_;
  std::vector<StreamName> begun_;  // streams whose first frame is in the batch
  // Transmissions, and which frames are done with by how many of them.
  uint64_t transmitted_ = 0, reclaimed_ = 0;
  CompletionQueue reclaim_;
  bool waits_for_reclaim_ = false;  // a sleep ends when more frames are done with
  // The kernel had no room for a frame; of_device: nor will it say when there is.
  bool kernel_full_ = false, device_full_ = false;
  // Transmissions of a run of fanned-out frames that are still to be made, in order; and
  // the frames, once the caller has been told that they are taken.
  std::vector<Copy> copies_;
  std::vector<std::byte> held_;
  std::vector<OutFrame> held_frames_;
};

template <typename Visit>
void CreditedEndpoint::ForEachStream(Visit visit) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    visit(StreamName{i, false}, peers_[i].stream(false));
    if (info_.multicast) visit(StreamName{i, true}, peers_[i].stream(true));
  }
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_
