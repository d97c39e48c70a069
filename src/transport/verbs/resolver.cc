#include "transport/verbs/resolver.h"

#include <glog/logging.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock;

constexpr int kResolveMs = 1000;
// A look-up without an answer after kTimeout is abandoned and retried, at growing intervals.
// (The kernel would continue it for a minute.)
constexpr Milliseconds kTimeout(1500), kFirstPause(50), kMaxPause(2000);
// Polling interval for a port that is down.
constexpr Milliseconds kPortPause(100);

int MakeEventFd() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw Error("transport verbs: eventfd: ", ErrnoText(errno));
  return fd;
}

void Empty(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof(count));
}

void* ContextOf(size_t peer) { return reinterpret_cast<void*>(peer + 1); }
size_t PeerOf(const rdma_cm_id* id) { return reinterpret_cast<uintptr_t>(id->context) - 1; }

std::span<const std::byte> DataOf(const rdma_ud_param& param) {
  return {static_cast<const std::byte*>(param.private_data), param.private_data_len};
}

}  // namespace

VerbsResolver::VerbsResolver(const VerbsDevice* device, VerbsGroups* groups,
                             const VerbsResolverPlan& plan)
    : device_(*device),
      groups_(groups),
      plan_(plan),
      update_fd_(MakeEventFd()),
      command_fd_(MakeEventFd()),
      routes_(plan.peers.size()),
      suspects_(plan.peers.size()),
      queue_pair_(plan.queue_pair),
      announced_queue_pair_(plan.queue_pair) {
  for (const auto& [node, address] : plan.peers) {
    peers_.emplace_back();
    peers_.back().node = node;
    peers_.back().address = address;
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "verbs peers");
}

VerbsResolver::~VerbsResolver() {
  stop_ = true;
  Ring(command_fd_);
  thread_.join();
}

void VerbsResolver::Ring(const FileDescriptor& fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd.get(), &one, sizeof(one));
}

void VerbsResolver::TakeUpdates(std::vector<VerbsRoute>* routes) {
  Empty(fd());
  has_updates_.store(false, std::memory_order_release);
  std::lock_guard lock(mutex_);
  *routes = routes_;
}

template <typename Change>
void VerbsResolver::Publish(size_t peer, Change change) {
  {
    std::lock_guard lock(mutex_);
    change(&routes_[peer]);
  }
  has_updates_.store(true, std::memory_order_release);
  Ring(update_fd_);
}

void VerbsResolver::Suspect(size_t peer) {
  {
    std::lock_guard lock(mutex_);
    if (suspects_[peer]) return;
    suspects_[peer] = true;
  }
  Ring(command_fd_);
}

void VerbsResolver::ReportBroken() {
  port_recovered_ = false;
  broken_ = true;
  Ring(command_fd_);
}

void VerbsResolver::ReportRenewed(uint32_t queue_pair) {
  port_recovered_ = false;
  queue_pair_ = queue_pair;
  Ring(command_fd_);
}

size_t VerbsResolver::IndexOf(NodeId node) const {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.node == node; });
  return static_cast<size_t>(found - peers_.begin());
}

VerbsHello VerbsResolver::HelloTo(size_t peer) const {
  VerbsHello hello;
  hello.group = plan_.group;
  hello.from = plan_.node;
  hello.to = peers_[peer].node;
  hello.joined = plan_.joined[peer];
  hello.queue_pair = announced_queue_pair_;
  hello.datagram_bytes = static_cast<uint32_t>(plan_.receive_bytes);
  return hello;
}

void VerbsResolver::Run() {
  pollfd polled[] = {{command_fd_.get(), POLLIN, 0},
                     {device_.channel()->fd, POLLIN, 0},
                     {device_.context()->async_fd, POLLIN, 0},
                     {groups_ ? groups_->fd() : -1, POLLIN, 0}};
  while (!stop_) {
    Commands();
    AskDue();
    poll(polled, 4, Timeout());
    TakeEvents();
    TakeDeviceEvents();
    if (groups_) TakeGroupEvents();
  }
  for (Peer& peer : peers_) peer.id.reset();
}

int VerbsResolver::Timeout() const {
  Time due = SteadyTime::now() + kMaxPause;
  if (broken_) due = SteadyTime::now() + kPortPause;
  for (const Peer& peer : peers_) {
    if (peer.state != State::kKnown) due = std::min(due, peer.due);
  }
  const auto left = std::chrono::ceil<Milliseconds>(due - SteadyTime::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

void VerbsResolver::Commands() {
  Empty(command_fd_.get());
  std::vector<bool> suspects(peers_.size());
  {
    std::lock_guard lock(mutex_);
    suspects_.swap(suspects);
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (suspects[i]) AskSoon(i);
  }
  const uint32_t queue_pair = queue_pair_;
  if (queue_pair != announced_queue_pair_) {
    announced_queue_pair_ = queue_pair;
    AskAll();
  }
  if (broken_ && device_.IsActive()) {
    broken_ = false;
    port_recovered_ = true;
    has_updates_ = true;
    Ring(update_fd_);
  }
}

void VerbsResolver::AskSoon(size_t index) {
  Peer& peer = peers_[index];
  const Time now = SteadyTime::now();
  if (peer.state == State::kAsking) {
    // An answer may still arrive. Otherwise the peer was not up yet when the look-up began.
    if (peer.due - now > kTimeout - kFirstPause) return;
    peer.id.reset();
  }
  peer.state = State::kIdle;
  peer.due = now;
  peer.pause = Milliseconds(0);
}

void VerbsResolver::AskAll() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].id.reset();  // a look-up in progress may have sent outdated data
    peers_[i].state = State::kIdle;
    AskSoon(i);
  }
}

void VerbsResolver::AskDue() {
  const Time now = SteadyTime::now();
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].due > now) continue;
    if (peers_[i].state == State::kAsking) Fail(i);
    if (peers_[i].state == State::kIdle && peers_[i].due <= now) Ask(i);
  }
}

void VerbsResolver::Ask(size_t index) {
  Peer& peer = peers_[index];
  peer.state = State::kAsking;
  peer.due = SteadyTime::now() + kTimeout;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(device_.channel(), &id, ContextOf(index), RDMA_PS_UDP) != 0) {
    Fail(index);
    return;
  }
  peer.id.reset(id);
  InetAddress from = device_.local();
  (from.is_v6() ? from.v6.sin6_port : from.v4.sin_port) = 0;
  if (rdma_resolve_addr(id, &from.any, &peer.address.any, kResolveMs) != 0) Fail(index);
}

void VerbsResolver::Fail(size_t index) {
  Peer& peer = peers_[index];
  peer.id.reset();
  peer.state = State::kIdle;
  peer.pause = std::clamp(2 * peer.pause, kFirstPause, kMaxPause);
  peer.due = SteadyTime::now() + peer.pause;
}

void VerbsResolver::TakeEvents() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(device_.channel(), &event) == 0) {
    CmId request;
    std::vector<CmId> over;
    const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    if (is_request) request.reset(event->id);
    const size_t peer = is_request ? peers_.size() : PeerOf(event->id);
    const bool current = peer < peers_.size() && peers_[peer].id.get() == event->id;
    rdma_cm_event copy = *event;
    if (is_request) {
      Answer(copy, request.get());
    } else if (current) {
      switch (copy.event) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
          if (rdma_resolve_route(event->id, kResolveMs) != 0) copy.status = -errno;
          break;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
          Connect(event->id, peer);
          break;
        case RDMA_CM_EVENT_ESTABLISHED:
          Found(peer, copy);
          break;
        default:
          if (copy.status == 0) copy.status = -ECONNREFUSED;
      }
      // An identifier may be destroyed only after its events are acknowledged.
      if (peers_[peer].state == State::kKnown || copy.status != 0) {
        over.push_back(std::move(peers_[peer].id));
      }
      if (copy.status != 0) Fail(peer);
    } else if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      LOG_FIRST_N(ERROR, 1) << "transport verbs: " << device_.name() << " was removed";
    }
    rdma_ack_cm_event(event);
  }
}

void VerbsResolver::Connect(rdma_cm_id* id, size_t peer) {
  const VerbsHello hello = HelloTo(peer);
  rdma_conn_param param{};
  param.private_data = &hello;
  param.private_data_len = sizeof(hello);
  // On failure, make the look-up time out at once.
  if (rdma_connect(id, &param) != 0) peers_[peer].due = SteadyTime::now();
}

void VerbsResolver::Answer(const rdma_cm_event& event, rdma_cm_id* id) {
  VerbsHello hello;
  const size_t peer =
      ParseVerbsHello(DataOf(event.param.ud), &hello) ? IndexOf(hello.from) : peers_.size();
  if (peer == peers_.size() || hello.group != plan_.group || hello.to != plan_.node) {
    rdma_reject(id, nullptr, 0);
    return;
  }
  const VerbsHello own = HelloTo(peer);
  rdma_conn_param param{};
  param.private_data = &own;
  param.private_data_len = sizeof(own);
  param.qp_num = announced_queue_pair_;
  rdma_accept(id, &param);  // on failure, the peer asks again
  if (!Fits(peer, hello)) return;
  bool is_new = false;
  Publish(peer, [&](VerbsRoute* route) {
    is_new = !route->address || route->queue_pair != hello.queue_pair;
    route->joined = hello.joined != 0;
  });
  if (is_new) AskSoon(peer);
}

bool VerbsResolver::Fits(size_t index, const VerbsHello& hello) {
  if (hello.datagram_bytes >= plan_.send_bytes) return true;
  Peer& peer = peers_[index];
  if (!peer.complained) {
    LOG(ERROR) << "transport verbs: " << device_.name() << ": node " << peer.node << " ("
               << peer.address.Text() << ") takes datagrams of " << hello.datagram_bytes
               << " bytes, this node sends " << plan_.send_bytes
               << ": it is not sent to; expected the same MTU or max_frame_bytes on all nodes";
  }
  peer.complained = true;
  return false;
}

void VerbsResolver::Found(size_t index, const rdma_cm_event& event) {
  Peer& peer = peers_[index];
  const rdma_ud_param& found = event.param.ud;
  VerbsHello hello;
  std::shared_ptr<ibv_ah> address;
  const bool is_it = ParseVerbsHello(DataOf(found), &hello) && hello.from == peer.node &&
                     hello.group == plan_.group;
  if (is_it && Fits(index, hello)) {
    AddressHandle handle = device_.MakeAddress(found.ah_attr);
    if (handle) address = std::move(handle);
  }
  if (!address) {
    peer.pause = kMaxPause;
    peer.due = SteadyTime::now();  // AskDue then calls Fail
    return;
  }
  Publish(index, [&](VerbsRoute* route) {
    *route = {std::move(address), found.qp_num, found.qkey, hello.joined != 0};
  });
  peer.state = State::kKnown;
  peer.pause = Milliseconds(0);
}

void VerbsResolver::TakeDeviceEvents() {
  ibv_async_event event;
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    switch (type) {
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_SM_CHANGE:
      case IBV_EVENT_CLIENT_REREGISTER:
        AskAll();
        break;
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_DEVICE_FATAL:
        LOG(WARNING) << "transport verbs: " << device_.name() << ": " << ibv_event_type_str(type);
        break;
      default:
        break;
    }
  }
}

void VerbsResolver::TakeGroupEvents() {
  NodeId node = 0;
  while (groups_->TakeLoss(&node)) {
    LOG(WARNING) << "transport verbs: " << device_.name() << ": multicast group "
                 << groups_->NameOf(node) << " is lost; copies are sent instead";
    const size_t peer = IndexOf(node);
    if (peer < peers_.size()) {
      plan_.joined[peer] = false;
      AskSoon(peer);
    } else {
      group_lost_ = true;
    }
  }
}

}  // namespace millrace::inline transport
