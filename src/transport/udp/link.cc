#include "transport/udp/link.h"

#include <poll.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "transport/udp/wire.h"

namespace millrace::inline transport {
namespace {

// While datagrams keep arriving, drops are classified once per this many reads: the kernel
// generates kilobytes of text for each query.
constexpr uint32_t kReadsPerClassification = 64;

}  // namespace

UdpLink::UdpLink(UdpSocket socket, const UdpPlan& plan)
    : socket_(std::move(socket)),
      max_datagram_bytes_(plan.max_datagram_bytes),
      peers_(plan.peers),
      batch_(&socket_, plan.max_segment_bytes),
      receiver_(&socket_, plan.max_datagram_bytes, plan.receive_buffers) {}

std::string UdpLink::SetPeerAddress(size_t peer, const std::string& text) {
  const InetAddress& own = socket_.local();
  const std::optional<InetAddress> address = ParseInetAddress(text);
  if (!address || address->is_v6() != own.is_v6() || address->port() == 0 || *address == own) {
    return StrCat("expected IP address and port of another node, of the family of ", own.Text());
  }
  try {
    const size_t room = socket_.PathPayloadBytes(text, *address);
    if (room < max_datagram_bytes_ && !socket_.fragments()) {
      return StrCat("its path carries packets of ", room + own.header_bytes(),
                    " bytes, but the segment sends ", max_datagram_bytes_ + own.header_bytes(),
                    "; expected an mtu of at most the former in the topology of all nodes");
    }
  } catch (const NetworkDownError&) {
    // There may be a route later.
  } catch (const Error& error) {
    return error.what();
  }
  peers_.Set(peer, *address);
  return "";
}

void UdpLink::Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) {
  batch_.Add(peers_[peer],
             MakeUdpPrefix(DatagramKind::kFrame, UdpPad(frame.bytes()), tag, sequence), frame);
}

bool UdpLink::SendCredit(size_t peer, const ControlMessage& credit) {
  return SendControl(peer, DatagramKind::kCredit, credit);
}

bool UdpLink::SendProbe(size_t peer, const ControlMessage& probe, bool) {
  return SendControl(peer, DatagramKind::kProbe, probe);
}

bool UdpLink::SendControl(size_t peer, DatagramKind kind, const ControlMessage& message) {
  if (!Reaches(peer)) return true;  // as lost: a peer that has moved sends probes itself
  const UdpControl control = MakeUdpControl(kind, message);
  return batch_.SendNow(peers_[peer], std::as_bytes(std::span(&control, 1)));
}

bool UdpLink::Read(Sink* sink) {
  const auto arrivals = receiver_.Read();
  for (const UdpArrival& arrival : arrivals) TakeArrival(arrival, sink);
  unclassified_ += receiver_.TakeDrops();
  if (unclassified_ > 0 && (arrivals.empty() || ++reads_ >= kReadsPerClassification))
    ClassifyDrops(sink);
  return !arrivals.empty();
}

void UdpLink::ClassifyDrops(Sink* sink) {
  const uint64_t bad = socket_.checksum_errors().Classify(unclassified_);
  if (bad > 0) sink->Drop(DropReason::kBadChecksum, bad);
  if (unclassified_ > bad) sink->Drop(DropReason::kOverrun, unclassified_ - bad);
  unclassified_ = reads_ = 0;
}

void UdpLink::TakeArrival(const UdpArrival& arrival, Sink* sink) {
  const size_t segment = arrival.segment_bytes;
  const size_t datagrams =
      arrival.bytes.empty() ? 1 : (arrival.bytes.size() + segment - 1) / segment;
  if (!(*arrival.from == peers_[last_peer_])) {
    const size_t peer = peers_.Find(*arrival.from);
    if (peer == InetPeers::kNone) {
      sink->Drop(DropReason::kUnknownSender, datagrams);
      return;
    }
    last_peer_ = peer;
  }
  if (arrival.truncated || arrival.bytes.empty()) {
    sink->Drop(DropReason::kMalformed, 1);
    return;
  }
  // Datagrams of peers are multiples of 8 bytes, so each one is aligned to 8 bytes.
  for (size_t at = 0; at < arrival.bytes.size(); at += segment) {
    const auto rest = arrival.bytes.subspan(at);
    TakeDatagram(rest.first(std::min(segment, rest.size())), arrival.position, sink);
  }
}

void UdpLink::TakeDatagram(std::span<const std::byte> bytes, uint64_t position, Sink* sink) {
  Datagram datagram;
  if (!ParseUdpDatagram(bytes, &datagram)) {
    sink->Drop(DropReason::kMalformed, 1);
    return;
  }
  datagram.peer = last_peer_;
  datagram.position = position;
  if (sink->Take(datagram)) receiver_.Keep(position);
}

DatagramLink::Polled UdpLink::Poll(int wake, int64_t ns, bool wants_room) {
  // Without a free buffer, a readable socket would end every sleep at once.
  const short events =
      static_cast<short>((receiver_.HasFree() ? POLLIN : 0) | (wants_room ? POLLOUT : 0));
  pollfd polled[2] = {{socket_.fd(), events, 0}, {wake, POLLIN, 0}};
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(polled, 2, &timeout, nullptr);
  if (polled[0].revents & POLLERR) socket_.ForgetErrors();
  return {(polled[0].revents & POLLOUT) != 0, (polled[1].revents & POLLIN) != 0};
}

}  // namespace millrace::inline transport
