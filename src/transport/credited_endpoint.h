// An endpoint with credit-based flow control over a datagram link: frame numbers, a window of
// unacknowledged frames per peer, credits and probes (stream_window.h). If the link multicasts,
// frames to all nodes form a stream of their own, numbered once and acknowledged by each peer;
// otherwise they are fanned out. Nothing else here depends on the kind of link.
#ifndef MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_
#define MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/file_descriptor.h"
#include "millrace/transport.h"
#include "transport/completion_queue.h"
#include "transport/datagram_link.h"
#include "transport/receive_queue.h"
#include "transport/stream_window.h"

namespace millrace::inline transport {

struct CreditedPlan {
  TransportInfo info;               // peers in ascending order of node id
  uint32_t window_frames = 0;       // unacknowledged frames to and from each peer
  size_t receive_queue_frames = 0;  // capacity of the receive queue: frames in the link's buffers
  size_t max_unfinished = 1;        // frames that the link reads after Flush; unused if info.copies
  int64_t silence_ns = 0;           // peer timeout, by `clock`
  const Clock* clock = nullptr;
};

class CreditedEndpoint : public Transport, private DatagramLink::Sink {
 public:
  // `link` reaches the peers of plan.info, in that order. Throws Error if no file descriptor is
  // available.
  CreditedEndpoint(std::unique_ptr<DatagramLink> link, const CreditedPlan& plan);

  SendResult Send(std::span<const OutFrame> frames) override;
  uint64_t Reclaim() override;
  size_t Receive(std::span<InFrame> frames) override;
  void Release() override;
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override;
  void Wake() override;
  // Whether frames can be sent to all peers. A link may have to resolve peers first; Send,
  // Receive and Wait process its results.
  bool ReachesAll() const;
  bool RegisterMemory(std::span<const std::byte> memory) override {
    return link_->RegisterMemory(memory);
  }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return link_->ReceiveMemory();
  }
  std::string SetPeerAddress(NodeId peer, const std::string& address) override;

 private:
  // The two directions of a stream, each with its own numbering.
  struct Stream {
    SendWindow send;
    ReceiveWindow receive;
    bool credit_wanted = false;  // is in credits_wanted_
  };
  struct Peer {
    NodeId node;
    uint64_t session;  // id of the peer's session, which probes echo; 0: unknown
    // Unicast and multicast stream.
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

  // Upper bound on link reads per call, so that a call returns however much arrives.
  static constexpr int kMaxLooks = 64;

  // Sending (credited_send.cc).
  // kBatched: the frame is in the batch. kDone: accepted without a transmission. kBusy: not
  // accepted.
  enum class Taken { kBatched, kDone, kBusy };
  bool CanEverSend(const OutFrame& frame) const;
  bool IsFannedOut(const OutFrame& frame) const {
    return frame.to == kAllNodes && !info_.multicast;
  }
  Taken TakeOne(const OutFrame& frame);  // with one transmission
  Taken TakeUnicast(const OutFrame& frame);
  Taken TakeMulticast(const OutFrame& frame);
  size_t RunLength(std::span<const OutFrame> frames, size_t* live);
  // Returns how many leading frames were accepted; 0: none.
  size_t TakeFannedOut(std::span<const OutFrame> frames);
  // Whether a frame may go to the peer now. Reads the link for credits if the window is full.
  bool HasRoom(StreamName name);
  void AddToBatch(size_t peer, const OutFrame& frame);
  // Sends the batch. Frames that were not sent return their numbers to the stream.
  DatagramLink::Flushed Flush();
  // The batch contains a stream's first frame: a probe must follow it.
  void Begin(size_t peer);
  void ProbeBegun();
  size_t FlushBatch();  // as Flush, and counts the frames; returns how many were processed
  void GiveBackNumber(size_t peer);
  void DropToUnresponsive(StreamName name);
  void DropToAllUnresponsive();
  // Counts a frame as accepted; it is complete once all transmissions so far have finished.
  void Accept(const OutFrame& frame, uint64_t transmissions);
  uint64_t Finish();  // as Reclaim, but leaves reclaimed_ unchanged
  // Makes the transmissions listed in copies_, which index `frames`; removes those that were
  // made.
  void SendCopies(std::span<const OutFrame> frames);
  void Hold(std::span<const OutFrame> frames);
  bool SendHeld();  // false while part of a multicast is still held

  // Receiving (credited_receive.cc).
  // Reads the link once. False if nothing was there, or no buffer was free.
  bool Poll();
  bool Take(const Datagram& datagram) override;
  bool TakeFrame(const Datagram& datagram);
  void TakeCredit(size_t peer, const ControlMessage& credit);
  void TakeProbe(StreamName name, const ControlMessage& probe);
  // Records that the peer has sent something.
  void Heard(size_t peer);
  void Drop(DropReason reason, uint64_t datagrams) override { counters_.Drop(reason, datagrams); }
  void Reached(size_t peer) override;
  void WantCredit(StreamName name);
  void SendCredits();
  void SendProbe(StreamName name);
  Stream& At(StreamName name) { return peers_[name.peer].stream(name.to_all); }
  // Session id of this node's unicast or multicast stream.
  uint64_t SessionOf(bool to_all) const { return session_ ^ (to_all ? 1 : 0); }
  // Calls visit(name, stream) for each stream in use.
  template <typename Visit>
  void ForEachStream(Visit visit);

  // Waiting (credited_endpoint.cc).
  // Evaluates the wait conditions once and clears woken_.
  WaitResult CheckConditions(WaitFor what);
  bool RoomAppeared();
  // Sends the probes that are due. Returns the time of the next one; INT64_MAX: none.
  int64_t ProbePeers(int64_t now_ns);
  // Sleeps until the link has an event or Wake() is called, for at most `ns` real nanoseconds.
  void Sleep(int64_t ns);

  const std::unique_ptr<DatagramLink> link_;
  const Clock& clock_;
  const FileDescriptor wake_;  // an eventfd: readable once Wake() was called
  std::atomic<bool> woken_{false};
  const uint64_t session_;
  std::vector<Peer> peers_;
  std::vector<size_t> by_node_;  // peer index, by node id
  // Destinations of the frames added to the link since the last Flush: peer indices or kAllPeers.
  std::array<size_t, DatagramLink::kMaxBatch> batch_;
  size_t batch_size_ = 0;
  ReceiveQueue receive_queue_;
  std::vector<StreamName> credits_wanted_;
  std::vector<StreamName> begun_;  // streams whose first frame is in the batch
  // reclaim_ maps the transmissions made so far (transmitted_) to complete frames; reclaimed_ is
  // the last result of Reclaim().
  uint64_t transmitted_ = 0, reclaimed_ = 0;
  CompletionQueue reclaim_;
  bool waits_for_reclaim_ = false;  // completion of more frames ends the sleep
  // kernel_full_: the last Flush met a full queue. device_full_: the queue is the device's, and
  // no event reports when it has room.
  bool kernel_full_ = false, device_full_ = false;
  // Outstanding transmissions of a fanned-out run, in order. Once Send has accepted the run,
  // held_frames_ lists its frames and held_ stores their bytes.
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

// Options of segments over transports whose endpoints are of this class.
std::map<std::string, std::string> CreditedSegmentOptions();

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_CREDITED_ENDPOINT_H_
