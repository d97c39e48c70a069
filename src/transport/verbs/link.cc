#include "transport/verbs/link.h"

#include <glog/logging.h>
#include <poll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

// After this many probes without an answer, the peer is looked up again.
constexpr uint32_t kProbesUntilSuspect = 16;

template <typename Object>
std::span<const std::byte> BytesOf(const Object& object) {
  return std::as_bytes(std::span(&object, 1));
}

}  // namespace

VerbsLink::VerbsLink(std::unique_ptr<VerbsDevice> device, const VerbsPlan& plan)
    : node_(plan.node),
      group_(plan.group),
      by_node_(plan.peers.rbegin()->first + size_t{1}, kNone),
      device_(std::move(device)),
      queue_(device_.get(), plan.send_slots, plan.receive_buffers),
      sender_(device_.get(), &queue_, plan.send_slots, plan.datagram_bytes),
      receiver_(device_.get(), &queue_, plan.receive_buffers, plan.datagram_bytes),
      routes_(plan.peers.size()),
      fresh_(plan.peers.size()),
      unanswered_(plan.peers.size()) {
  for (const auto& [node, address] : plan.peers) {
    by_node_[node] = nodes_.size();
    nodes_.push_back(node);
  }
  VerbsResolverPlan found;
  found.node = plan.node;
  found.group = plan.group;
  found.peers = plan.peers;
  found.joined = JoinGroups(plan);
  found.queue_pair = queue_.number();
  found.send_bytes = found.receive_bytes = plan.datagram_bytes;
  group_works_ = own_group_.has_value();
  resolver_ = std::make_unique<VerbsResolver>(device_.get(), groups_.get(), found);
}

VerbsLink::~VerbsLink() = default;

// Returns, by peer index, whether this node receives the peer's multicasts.
std::vector<bool> VerbsLink::JoinGroups(const VerbsPlan& plan) {
  std::vector<bool> attached(nodes_.size(), false);
  if (!plan.multicast) return attached;
  groups_ = std::make_unique<VerbsGroups>(device_.get(), plan.multicast_base, plan.group);
  std::string why;
  own_group_ = groups_->Join(node_, true, &why);
  if (!own_group_) {
    const std::string said = StrCat("transport verbs: ", device_->name(), ": multicast group ",
                                    groups_->NameOf(node_), " is refused: ", why);
    if (plan.multicast_required) {
      throw Error(said, ": expected a fabric with multicast, or multicast=auto");
    }
    LOG(WARNING) << said << "; a copy is sent to each peer instead";
  }
  std::string refused;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto joined = groups_->Join(nodes_[i], false, &why);
    attached[i] = joined && queue_.Attach(joined->group);
    if (!attached[i]) refused += StrCat(refused.empty() ? "" : ", ", nodes_[i]);
  }
  if (!refused.empty()) {
    LOG(WARNING) << "transport verbs: " << device_->name() << ": not in the multicast groups of "
                 << "nodes " << refused << (why.empty() ? "" : ": " + why)
                 << "; they send copies instead";
  }
  return attached;
}

bool VerbsLink::RegisterMemory(std::span<const std::byte> memory) {
  return memory.empty() || sender_.RegisterMemory(memory);
}

uint64_t VerbsLink::Unfinished() {
  sender_.Reap();
  return sender_.Unfinished();
}

VerbsPrefix VerbsLink::PrefixFor(NodeId to, DatagramKind kind, uint16_t tag,
                                 uint32_t sequence) const {
  VerbsPrefix prefix;
  prefix.kind = static_cast<uint8_t>(kind);
  prefix.group = group_;
  prefix.from = node_;
  prefix.to = to;
  prefix.tag = tag;
  prefix.sequence = sequence;
  return prefix;
}

VerbsDestination VerbsLink::Destination(size_t peer) const {
  if (peer == kAllPeers) {
    return {own_group_->address.get(), own_group_->queue_pair, own_group_->key};
  }
  const VerbsRoute& route = routes_[peer];
  return {route.address.get(), route.queue_pair, route.key};
}

size_t VerbsLink::DatagramsFor(size_t peer) const {
  if (peer != kAllPeers) return 1;
  size_t count = group_works_ ? 1 : 0;
  for (size_t i = 0; i < routes_.size(); ++i) count += Reaches(i) && !HasJoinedGroup(i) ? 1 : 0;
  return count;
}

bool VerbsLink::HasRoom(size_t datagrams) {
  const bool has = sender_.HasRoom(datagrams);
  refused_ = has ? 0 : datagrams;
  return has;
}

// Whether there is room for the refused datagrams; if none were refused, whether more were sent.
bool VerbsLink::SendsAgain() {
  if (queue_.broken()) return true;
  return refused_ > 0 ? HasRoom(refused_) : sender_.Reap();
}

void VerbsLink::AddTo(const VerbsDestination& to, const VerbsPrefix& prefix, const OutFrame& frame,
                      bool ends_frame) {
  sender_.Add(to, BytesOf(prefix), frame.header, frame.payload, ends_frame);
}

void VerbsLink::Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) {
  if (flushed_.busy) return;
  const size_t datagrams = DatagramsFor(peer);
  const bool lost = queue_.broken() || datagrams == 0 || (peer != kAllPeers && !Reaches(peer));
  if (!lost && !HasRoom(datagrams)) {
    flushed_.busy = true;
    return;
  }
  ++flushed_.frames;
  flushed_.bytes += frame.bytes();
  if (lost) {
    ++flushed_.failed;
    sender_.Skip();
    return;
  }
  const NodeId to = peer == kAllPeers ? kAllNodes : nodes_[peer];
  const VerbsPrefix prefix = PrefixFor(to, DatagramKind::kFrame, tag, sequence);
  flushed_.copies += datagrams - 1;
  if (peer != kAllPeers || group_works_) {
    AddTo(Destination(peer), prefix, frame, datagrams == 1);
    if (datagrams == 1) return;
  }
  size_t left = datagrams - (group_works_ ? 1 : 0);
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (!Reaches(i) || HasJoinedGroup(i)) continue;
    AddTo(Destination(i), prefix, frame, --left == 0);
  }
}

DatagramLink::Flushed VerbsLink::Flush() {
  sender_.Post();
  return std::exchange(flushed_, {});
}

bool VerbsLink::SendNow(size_t peer, NodeId to, DatagramKind kind, const ControlMessage& message) {
  if (queue_.broken() || !Reaches(peer)) return true;  // lost, as on any network
  if (!sender_.HasRoom(1)) {
    refused_ = std::max<size_t>(refused_, 1);
    return false;
  }
  const DatagramControl body(message);
  sender_.Add(Destination(peer),
              BytesOf(PrefixFor(to, kind, TagOf(message.session), message.sequence)), BytesOf(body),
              {}, false);
  sender_.Post();
  return true;
}

bool VerbsLink::SendCredit(size_t peer, const ControlMessage& credit) {
  return SendNow(peer, nodes_[peer], DatagramKind::kCredit, credit);
}

bool VerbsLink::SendProbe(size_t peer, const ControlMessage& probe, bool to_all) {
  if (++unanswered_[peer] % kProbesUntilSuspect == 0) resolver_->Suspect(peer);
  return SendNow(peer, to_all ? kAllNodes : nodes_[peer], DatagramKind::kProbe, probe);
}

bool VerbsLink::Read(Sink* sink) {
  const bool updates = resolver_->HasUpdates();
  if (updates) TakeUpdates(sink);
  const bool read =
      receiver_.Read([&](std::span<const std::byte> bytes, uint32_t queue_pair, uint64_t position) {
        return TakeDatagram(bytes, queue_pair, position, sink);
      });
  if (const uint64_t failed = sender_.TakeFailed()) sink->Drop(DropReason::kFailed, failed);
  if (queue_.broken()) ReplaceQueuePair();
  return updates || read;
}

bool VerbsLink::TakeDatagram(std::span<const std::byte> bytes, uint32_t queue_pair,
                             uint64_t position, Sink* sink) {
  VerbsPrefix prefix;
  Datagram datagram;
  if (!ParseVerbsDatagram(bytes, &prefix, &datagram)) {
    sink->Drop(DropReason::kMalformed, 1);
    return false;
  }
  // Ignore other clusters, and this node's own multicasts, which some devices return to group
  // members.
  if (prefix.group != group_ || prefix.from == node_) return false;
  datagram.peer = prefix.from < by_node_.size() ? by_node_[prefix.from] : kNone;
  if (datagram.peer == kNone || (prefix.to != node_ && prefix.to != kAllNodes)) {
    sink->Drop(DropReason::kUnknownSender, 1);
    return false;
  }
  unanswered_[datagram.peer] = 0;
  const VerbsRoute& route = routes_[datagram.peer];
  if (route.address && route.queue_pair != queue_pair) resolver_->Suspect(datagram.peer);
  datagram.position = position;
  return sink->Take(datagram);
}

void VerbsLink::TakeUpdates(Sink* sink) {
  resolver_->TakeUpdates(&fresh_);
  group_works_ = own_group_ && !resolver_->group_lost();
  std::erase_if(retired_, [&](const Retired& old) { return old.added <= sender_.sent(); });
  for (size_t i = 0; i < routes_.size(); ++i) {
    const bool changed = routes_[i].address != fresh_[i].address;
    if (changed && routes_[i].address) {
      retired_.push_back({std::move(routes_[i].address), sender_.added()});
    }
    routes_[i] = fresh_[i];
    if (changed) sink->Reached(i);
  }
}

// Recovers from a device failure: once the port is active (again), replaces the queue pair and
// reports the new number to the peers.
void VerbsLink::ReplaceQueuePair() {
  if (!std::exchange(reported_broken_, true)) {
    LOG(WARNING) << "transport verbs: " << device_->name()
                 << ": the queue pair has failed; a new one is made";
    resolver_->ReportBroken();
    return;
  }
  if (!resolver_->port_recovered()) return;
  if (!queue_.Renew()) {
    resolver_->ReportBroken();
    return;
  }
  reported_broken_ = false;
  sender_.Restart();
  receiver_.Restart();
  resolver_->ReportRenewed(queue_.number());
}

DatagramLink::Polled VerbsLink::Poll(int wake, int64_t ns, bool wants_room) {
  queue_.ArmReceive();
  if (wants_room) queue_.ArmSend();
  // Completions before the queues were armed raise no event, so check for them.
  const bool room = wants_room && SendsAgain();
  if (receiver_.HasDatagram() || room) ns = 0;
  pollfd polled[3] = {{queue_.fd(), POLLIN, 0}, {wake, POLLIN, 0}, {resolver_->fd(), POLLIN, 0}};
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(polled, 3, &timeout, nullptr);
  if (polled[0].revents & POLLIN) queue_.TakeEvents();
  return {room || (wants_room && SendsAgain()), (polled[1].revents & POLLIN) != 0};
}

}  // namespace millrace::inline transport
