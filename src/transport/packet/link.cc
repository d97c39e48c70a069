#include "transport/packet/link.h"

#include <poll.h>

#include <algorithm>
#include <ctime>

#include "transport/packet/socket.h"
#include "transport/socket_option.h"

namespace millrace::inline transport {
namespace {

// Maximum sleep while blocks are held: the kernel then reports the ring readable at all times, so
// the link does not poll the ring but checks it once per block timeout.
constexpr int64_t kHoldingPauseNs = 1'000'000;
// While blocks keep arriving, credits are read once per this many blocks. These are far fewer
// frames than the quarter of a window that a credit covers.
constexpr uint32_t kBlocksPerLook = 8;

}  // namespace

PacketLink::PacketLink(const PacketPlan& plan)
    : node_(plan.node),
      group_(plan.group),
      by_node_(plan.peers.rbegin()->first + size_t{1}, kNone),
      socket_(OpenPacketSocket()),
      batch_(socket_.get()),
      ring_(OpenPacketSocket(), plan.block_bytes, plan.ring_blocks) {
  for (const auto& [node, address] : plan.peers) {
    by_node_[node] = peers_.size();
    peers_.push_back({{address, plan.interface.address}, node});
  }
  for (size_t i = 0; i < kCredits; ++i) {
    pieces_[i] = {credits_[i].data(), kCreditRoom};
    headers_[i].msg_hdr.msg_iov = &pieces_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
  }
  SetSocketBuffer(socket_.get(), SO_SNDBUF, SO_SNDBUFFORCE, plan.send_buffer_bytes);
  BindPacketSocket(socket_.get(), plan.interface, {group_, node_, true});
  BindPacketSocket(ring_.fd(), plan.interface, {group_, node_, false});
}

PacketHead PacketLink::HeadFor(size_t peer, DatagramKind kind, uint16_t tag, size_t bytes,
                               uint32_t sequence) const {
  PacketPrefix prefix;
  prefix.kind = static_cast<uint8_t>(kind);
  prefix.group = group_;
  prefix.from = node_;
  prefix.to = peers_[peer].node;
  prefix.tag = tag;
  prefix.bytes = static_cast<uint16_t>(bytes);
  prefix.sequence = sequence;
  return MakePacketHead(peers_[peer].ethernet, prefix);
}

void PacketLink::Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) {
  batch_.Add(HeadFor(peer, DatagramKind::kFrame, tag, frame.bytes(), sequence), frame);
}

bool PacketLink::SendCredit(size_t peer, const ControlMessage& credit) {
  return SendControl(peer, DatagramKind::kCredit, credit);
}

bool PacketLink::SendProbe(size_t peer, const ControlMessage& probe, bool) {
  return SendControl(peer, DatagramKind::kProbe, probe);
}

bool PacketLink::SendControl(size_t peer, DatagramKind kind, const ControlMessage& message) {
  const DatagramControl body(message);
  return batch_.SendNow(HeadFor(peer, kind, TagOf(message.session), sizeof(body), message.sequence),
                        std::as_bytes(std::span(&body, 1)));
}

bool PacketLink::Read(Sink* sink) {
  const bool block = ring_.ReadBlock([&](std::span<const std::byte> packet, uint64_t position) {
    return TakePacket(packet, position, sink);
  });
  // Reading a block needs no system call, reading credits does.
  const bool look = !block || ++blocks_read_ % kBlocksPerLook == 0;
  const bool credits = look && ReadCredits(sink);
  if (const uint64_t overruns = ring_.TakeOverruns()) sink->Drop(DropReason::kOverrun, overruns);
  return credits || block;
}

bool PacketLink::ReadCredits(Sink* sink) {
  const int count = recvmmsg(socket_.get(), headers_.data(), kCredits, MSG_DONTWAIT, nullptr);
  for (int i = 0; i < count; ++i) {
    const auto bytes = std::min<size_t>(headers_[i].msg_len, kCreditRoom);
    TakePacket(std::span(credits_[i]).first(bytes), 0, sink);
  }
  return count > 0;
}

bool PacketLink::TakePacket(std::span<const std::byte> packet, uint64_t position, Sink* sink) {
  EthernetHeader ethernet;
  PacketPrefix prefix;
  Datagram datagram;
  if (!ParsePacket(packet, &ethernet, &prefix, &datagram)) {
    sink->Drop(DropReason::kMalformed, 1);
    return false;
  }
  datagram.peer = prefix.from < by_node_.size() ? by_node_[prefix.from] : kNone;
  if (datagram.peer == kNone || ethernet.from != peers_[datagram.peer].ethernet.to) {
    sink->Drop(DropReason::kUnknownSender, 1);
    return false;
  }
  datagram.position = position;
  return sink->Take(datagram);
}

DatagramLink::Polled PacketLink::Poll(int wake, int64_t ns, bool wants_room) {
  if (ring_.holding()) ns = std::min(ns, kHoldingPauseNs);
  pollfd polled[3] = {{socket_.get(), static_cast<short>(POLLIN | (wants_room ? POLLOUT : 0)), 0},
                      {ring_.fd(), static_cast<short>(ring_.holding() ? 0 : POLLIN), 0},
                      {wake, POLLIN, 0}};
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(polled, 3, &timeout, nullptr);
  // Clears errors (interface down), which would otherwise end every sleep at once.
  for (const pollfd& each : {polled[0], polled[1]}) {
    if (each.revents & POLLERR) GetSocketInt(each.fd, SOL_SOCKET, SO_ERROR);
  }
  return {(polled[0].revents & POLLOUT) != 0, (polled[2].revents & POLLIN) != 0};
}

}  // namespace millrace::inline transport
