// CreditedEndpoint: construction, waiting and waking.
#include "transport/credited_endpoint.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

// Pause before a full device queue is tried again.
constexpr int64_t kDevicePauseNs = 50'000;

// Maximum multicast frames fanned out in one run: as many as fit the kernel's largest message.
size_t RunFrames(size_t frame_bytes) {
  constexpr size_t kBytes = 65536, kMax = 32;
  return std::clamp<size_t>(kBytes / frame_bytes, 1, kMax);
}

// Draws a session id. It distinguishes this endpoint from a predecessor at the same address, and
// hosts that see its datagrams from hosts that do not. Neither 0 nor 1, so that the ids of both
// streams (SessionOf) are nonzero.
uint64_t DrawSession() {
  uint64_t session = 0;
  while (session <= 1 && getrandom(&session, sizeof(session), 0) != sizeof(session)) {
  }
  return session;
}

int MakeEventFd(const std::string& transport) {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw Error("transport ", transport, ": eventfd: ", ErrnoText(errno));
  return fd;
}

}  // namespace

CreditedEndpoint::CreditedEndpoint(std::unique_ptr<DatagramLink> link, const CreditedPlan& plan)
    : Transport(plan.info),
      link_(std::move(link)),
      clock_(*plan.clock),
      wake_(MakeEventFd(plan.info.name)),
      session_(DrawSession()),
      by_node_(PeerLimit(plan.info)),
      receive_queue_(plan.receive_queue_frames),
      reclaim_(plan.max_unfinished + 1),
      held_(RunFrames(plan.info.max_frame_bytes) * plan.info.max_frame_bytes) {
  IndexPeers();
  for (const NodeId node : plan.info.peers) {
    by_node_[node] = peers_.size();
    const Stream stream = {SendWindow(plan.window_frames, plan.silence_ns),
                           ReceiveWindow(plan.window_frames), false};
    peers_.push_back({node, 0, {stream, stream}});
    const bool reached = link_->Reaches(peers_.size() - 1);
    for (Stream& each : peers_.back().streams) each.send.SetReached(reached);
  }
  credits_wanted_.reserve(2 * peers_.size());
  begun_.reserve(2 * peers_.size());
  const size_t run = held_.size() / plan.info.max_frame_bytes;
  copies_.reserve(std::max(peers_.size(), batch_.size()));
  held_frames_.reserve(run);
}

void CreditedEndpoint::Wake() {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Cannot fail: the eventfd's counter is far from overflow.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

std::string CreditedEndpoint::SetPeerAddress(NodeId peer, const std::string& address) {
  if (!HasPeer(peer)) return "there is no such node";
  const std::string problem = link_->SetPeerAddress(by_node_[peer], address);
  if (!problem.empty()) return problem;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (link_->Reaches(i)) continue;  // another peer may have lost this address
    for (Stream& each : peers_[i].streams) each.send.SetReached(false);
  }
  std::erase_if(copies_, [this](const Copy& copy) { return !link_->Reaches(copy.peer); });
  Reached(by_node_[peer]);
  return "";
}

bool CreditedEndpoint::ReachesAll() const {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!link_->Reaches(i)) return false;
  }
  return true;
}

WaitResult CreditedEndpoint::Wait(int64_t deadline_ns, WaitFor what) {
  for (bool last = false;;) {
    SendHeld();
    SendCredits();
    // Probe even if a frame is receivable: that may hold forever.
    const int64_t now = clock_.NowNs();
    const int64_t next_probe = ProbePeers(now);
    const WaitResult result = CheckConditions(what);
    if (result.receivable || result.sendable || result.woken || last) return result;
    const int64_t ns = SleepNs(clock_, std::min(deadline_ns, next_probe));
    // Poll the link once more after the deadline.
    last = now >= deadline_ns;
    Sleep(last ? 0 : ns);
  }
}

WaitResult CreditedEndpoint::CheckConditions(WaitFor what) {
  WaitResult result;
  result.receivable = receive_queue_.waiting() || (Poll() && receive_queue_.waiting());
  result.sendable = what == WaitFor::kReceiveOrSend && RoomAppeared();
  result.woken = woken_.exchange(false, std::memory_order_seq_cst);
  return result;
}

bool CreditedEndpoint::RoomAppeared() {
  waits_for_reclaim_ = false;
  if (kernel_full_) return false;
  bool refused = false, room = false;
  ForEachStream([&](StreamName, Stream& stream) {
    SendWindow& window = stream.send;
    if (!window.refused()) return;
    refused = true;
    if (window.Room() == 0 && !window.unresponsive()) return;
    window.ClearRefused();
    room = true;
  });
  if (refused) return room;
  const uint64_t done = Finish();
  waits_for_reclaim_ = done == reclaimed_ && done != counters_.frames_sent();
  return !waits_for_reclaim_;
}

uint64_t CreditedEndpoint::Finish() {
  if (info_.copies) return counters_.frames_sent();
  return reclaim_.Finish(transmitted_ - link_->Unfinished());
}

uint64_t CreditedEndpoint::Reclaim() {
  reclaimed_ = Finish();
  return reclaimed_;
}

int64_t CreditedEndpoint::ProbePeers(int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  ForEachStream([&](StreamName name, Stream& stream) {
    if (stream.send.ProbeDue(now_ns)) SendProbe(name);
    next_ns = std::min(next_ns, stream.send.NextProbeNs());
  });
  return next_ns;
}

void CreditedEndpoint::Sleep(int64_t ns) {
  if (device_full_) ns = std::min(ns, kDevicePauseNs);
  const bool wants_room =
      (kernel_full_ && !device_full_) || !credits_wanted_.empty() || waits_for_reclaim_;
  const DatagramLink::Polled polled = link_->Poll(wake_.get(), ns, wants_room);
  if (polled.room || device_full_) kernel_full_ = device_full_ = false;
  if (polled.woken) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
  }
}

// A frame to all peers waits for a peer without credit until that peer counts as unresponsive.
// 100 ms hardly delays the other peers. The transport keeps probing the peer, and the only cost of
// the frames that it missed is their retransmission.
std::map<std::string, std::string> CreditedSegmentOptions() { return {{"silence_ms", "100"}}; }

}  // namespace millrace::inline transport
