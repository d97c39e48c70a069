// Making an endpoint, waiting and waking.
#include "transport/udp_endpoint.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.h"

namespace millrace {
namespace {

constexpr size_t kMostFramesPerBuffer = 128;
// How long a device queue that was full is left alone.
constexpr int64_t kDevicePauseNs = 50'000;

// Tells an endpoint from the one that had its address before it.
uint16_t DrawSession() {
  uint16_t session = 0;
  while (getrandom(&session, sizeof(session), 0) != sizeof(session)) {
  }
  return session;
}

int MakeEventFd() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw Error("transport udp: eventfd: ", ErrnoText(errno));
  return fd;
}

}  // namespace

UdpEndpoint::UdpEndpoint(UdpSocket socket, const UdpPlan& plan)
    : Transport(plan.info),
      socket_(std::move(socket)),
      clock_(*plan.clock),
      wake_(MakeEventFd()),
      session_(DrawSession()),
      peers_(plan.peers, plan.window_frames, plan.silence_ns),
      batch_(&socket_, plan.most_segment_bytes),
      receiver_(&socket_, plan.most_datagram_bytes, plan.receive_buffers),
      inbox_(plan.receive_buffers * (socket_.gro() ? kMostFramesPerBuffer : 1)),
      held_(plan.info.max_frame_bytes) {
  IndexPeers();
  credits_wanted_.reserve(peers_.size());
  held_to_.reserve(peers_.size());
}

void UdpEndpoint::Wake() {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Cannot fail: the counter is far from its end.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

WaitResult UdpEndpoint::Wait(int64_t deadline_ns, WaitFor what) {
  for (bool last = false;;) {
    if (!held_to_.empty()) SendHeld();
    SendCredits();
    // Also when there is something to receive: that may be so for ever.
    const int64_t now = clock_.NowNs();
    const int64_t next_probe = ProbePeers(now);
    const WaitResult result = Look(what);
    if (result.receivable || result.sendable || result.woken || last) return result;
    const int64_t ns = SleepNs(clock_, std::min(deadline_ns, next_probe));
    // A deadline that is over is still worth one look at the socket.
    last = now >= deadline_ns;
    Sleep(last ? 0 : ns);
  }
}

WaitResult UdpEndpoint::Look(WaitFor what) {
  WaitResult result;
  result.receivable = inbox_.waiting() || (Pump() && inbox_.waiting());
  result.sendable = what == WaitFor::kReceiveOrSend && RoomAppeared();
  result.woken = woken_.exchange(false, std::memory_order_seq_cst);
  return result;
}

bool UdpEndpoint::RoomAppeared() {
  if (kernel_full_) return false;
  bool refused = false, room = false;
  for (size_t i = 0; i < peers_.size(); ++i) {
    UdpSendWindow& window = peers_[i].send;
    if (!window.refused()) continue;
    refused = true;
    if (window.Room() == 0 && !window.silent()) continue;
    window.ClearRefused();
    room = true;
  }
  return room || !refused;
}

int64_t UdpEndpoint::ProbePeers(int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].send.ProbeDue(now_ns)) SendProbe(i);
    next_ns = std::min(next_ns, peers_[i].send.NextProbeNs());
  }
  return next_ns;
}

void UdpEndpoint::Sleep(int64_t ns) {
  if (device_full_) ns = std::min(ns, kDevicePauseNs);
  const bool wants_room = (kernel_full_ && !device_full_) || !credits_wanted_.empty();
  // Without a buffer to read into, what is readable would end every sleep at once.
  const short events =
      static_cast<short>((receiver_.HasFree() ? POLLIN : 0) | (wants_room ? POLLOUT : 0));
  pollfd polled[2] = {{socket_.fd(), events, 0}, {wake_.get(), POLLIN, 0}};
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(polled, 2, &timeout, nullptr);
  if (polled[0].revents & POLLERR) socket_.ForgetErrors();
  if ((polled[0].revents & POLLOUT) || device_full_) kernel_full_ = device_full_ = false;
  if (polled[1].revents & POLLIN) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
  }
}

}  // namespace millrace
