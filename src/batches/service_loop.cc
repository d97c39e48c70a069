#include "batches/service_loop.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/wire_bytes.h"
#include "batches/service_address.h"
#include "segment/auth/key_file.h"
#include "transport/inet_address.h"

namespace millrace::inline batches {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kMetricsNs = 100 * kNsPerMs;   // between two updates of the metrics
constexpr int64_t kHelloNs = 10'000 * kNsPerMs;  // within which a new connection says what it wants

DispatcherConfig DispatcherConfigOf(const BatchServerConfig& config) {
  const size_t ahead = config.threads + size_t{2};
  return {.slots = size_t{config.max_workers} * config.credit + ahead,
          .credit = config.credit,
          .ahead = ahead};
}

FileDescriptor Listen(const std::string& text) {
  const InetAddress address = ResolveUdpAddress("--listen", text);
  FileDescriptor socket(
      ::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  if (socket.get() < 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(socket.get(), &address.any, address.length()) != 0 || listen(socket.get(), 128) != 0) {
    throw Error("--listen=", text, ": ", ErrnoText(errno));
  }
  return socket;
}

InetAddress AddressOf(int fd, decltype(getsockname)* get) {
  InetAddress address;
  socklen_t length = sizeof(address.v6);
  get(fd, &address.any, &length);
  return address;
}

bool IsOfThisUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

std::string ServiceLoop::address() const { return AddressOf(listener_.get(), getsockname).Text(); }

BatchServerCounts ServiceLoop::counts() const {
  boost::unique_lock<boost::mutex> lock(mutex_);
  BatchServerCounts counts = counts_;
  counts.made = dispatcher_.made();
  counts.workers = dispatcher_.consumers();
  const Dispatcher::Demand demand = dispatcher_.demand();
  counts.waiting = demand.waiting;
  counts.wanted = demand.wanted;
  counts.used_slots = dispatcher_.used_slots();
  return counts;
}

ServiceLoop::ServiceLoop(const BatchServerConfig& config, BatchMaker* maker, ErrorSink* errors)
    : config_(config),
      dispatcher_config_(DispatcherConfigOf(config)),
      maker_(*maker),
      errors_(errors),
      timeout_ns_(static_cast<int64_t>(config.worker_timeout * 1e9)),
      metrics_(config.metrics, config.name),
      key_(config.key_file.empty() ? std::optional<SecretKey>()
                                   : BatchKey(ReadKeyFile(config.key_file))),
      memory_(dispatcher_config_.slots, maker->bytes()),
      file_(config.state_file.empty() || config.same
                ? nullptr
                : std::make_unique<LedgerFile>(config.state_file, maker->fingerprint(),
                                               config.first_batch)),
      own_ledger_(file_ || config.same ? nullptr : std::make_unique<Ledger>(config.first_batch)),
      ledger_(file_ ? &file_->ledger() : own_ledger_.get()),
      listener_(Listen(CheckedListenAddress(config.listen, key_.has_value()))),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      dispatcher_(dispatcher_config_, ledger_) {
  Nonce nonce = DrawNonce(SystemRandom);
  link_name_ = StrCat("millrace-batches-", std::hex);
  for (const std::byte each : nonce) link_name_ += StrCat(std::hex, std::to_integer<int>(each));
  link_listener_ = ListenLocally(link_name_);
  if (ledger_) {
    const int64_t now = clock_.NowNs();
    for (const uint64_t sequence : ledger_->OpenSequences()) lost_[sequence] = now;
  }
  for (uint32_t i = 0; i < config_.threads; ++i) {
    threads_.push_back(std::make_unique<Thread>(
        "make batches", [this] { Produce(); }, errors));
  }
  threads_.push_back(std::make_unique<Thread>(
      "serve batches", [this] { Serve(); }, errors));
}

ServiceLoop::~ServiceLoop() {
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    stopped_ = true;
    work_.notify_all();
  }
  Wake();
  for (const auto& thread : threads_) thread->Stop();
}

void ServiceLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void ServiceLoop::Produce() {
  try {
    BatchMaker::Worker worker(&maker_);
    while (true) {
      std::optional<Dispatcher::Job> job;
      {
        boost::unique_lock<boost::mutex> lock(mutex_);
        while (!stopped_ && !(job = dispatcher_.NextJob())) work_.wait(lock);
        if (stopped_) return;
      }
      const int64_t begin_ns = clock_.NowNs();
      worker.Make(job->batch, memory_.slot(job->slot));
      metrics_.AddMade(clock_.NowNs() - begin_ns);
      bool wakes = false;
      {
        boost::unique_lock<boost::mutex> lock(mutex_);
        dispatcher_.Done(job->slot);
        // A batch that nobody has asked for wakes nobody.
        wakes = dispatcher_.may_deliver() && !std::exchange(is_woken_, true);
      }
      if (wakes) Wake();
    }
  } catch (const Error& error) {
    {
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (failure_.empty()) failure_ = error.what();
    }
    Wake();
    throw;  // to errors_
  }
}

void ServiceLoop::Serve() {
  while (true) {
    {
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (stopped_) return;
    }
    Wait();
    Deliver();
    Tick();
    if (std::exchange(may_have_work_, false)) work_.notify_all();
  }
}

void ServiceLoop::Wait() {
  for (const auto& [id, peer] : peers_) {
    peer->connection.Flush();
    if (peer->state == Peer::State::kClosing && !peer->connection.wants_to_send() &&
        !peer->has_finished) {
      // Closing at once could discard what was sent; the worker closes.
      peer->has_finished = shutdown(peer->connection.fd(), SHUT_WR) == 0;
    }
  }
  std::vector<pollfd> polled = {
      {wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {link_listener_.get(), POLLIN, 0}};
  const size_t first_peer = polled.size();
  std::vector<uint64_t> ids;
  for (const auto& [id, peer] : peers_) {
    const short out = peer->connection.wants_to_send() ? POLLOUT : 0;
    polled.push_back({peer->connection.fd(), static_cast<short>(POLLIN | out), 0});
    ids.push_back(id);
  }
  const size_t first_link = polled.size();
  for (const NewLink& link : new_links_) polled.push_back({link.socket.get(), POLLIN, 0});
  const size_t first_abandoned = polled.size();
  std::vector<uint64_t> abandoned;
  for (const auto& [id, link] : abandoned_) {
    polled.push_back({link.get(), POLLIN, 0});
    abandoned.push_back(id);
  }
  const int tick_ms = static_cast<int>(std::clamp<int64_t>(timeout_ns_ / (8 * kNsPerMs), 1, 100));
  if (poll(polled.data(), polled.size(), tick_ms) < 0 && errno != EINTR) {
    throw Error("minibatch service: poll: ", ErrnoText(errno));
  }
  if (polled[0].revents != 0) {
    uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof(count));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if ((polled[first_peer + i].revents & ~POLLOUT) != 0) Receive(ids[i]);
  }
  for (size_t i = first_abandoned; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    boost::unique_lock<boost::mutex> lock(mutex_);
    dispatcher_.Remove(abandoned[i - first_abandoned]);
    abandoned_.erase(abandoned[i - first_abandoned]);
    work_.notify_all();
  }
  for (size_t i = first_link; i < first_abandoned; ++i) {
    if (polled[i].revents != 0) TakeLink(&new_links_[i - first_link]);
  }
  std::erase_if(new_links_, [&](const NewLink& link) {
    return link.socket.get() < 0 || clock_.NowNs() - link.since_ns > kHelloNs;
  });
  if (polled[2].revents != 0) AcceptLink();
  if (polled[1].revents != 0) Accept();
}

void ServiceLoop::Accept() {
  FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  constexpr size_t kSpare = 64;  // that are refused, or have not said what they want
  if (socket.get() < 0 || peers_.size() >= config_.max_workers + kSpare) return;
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  auto peer = std::make_unique<Peer>(std::move(socket));
  peer->text = AddressOf(peer->connection.fd(), getpeername).Text();
  peer->since_ns = peer->heard_ns = peer->sent_ns = clock_.NowNs();
  peer->nonce = DrawNonce(SystemRandom);
  peer->connection.Send(MakeChallenge({kBatchProtocolVersion, key_.has_value(), peer->nonce}));
  peers_[next_id_++] = std::move(peer);
}

void ServiceLoop::AcceptLink() {
  FileDescriptor socket(
      accept4(link_listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.get() < 0 || !IsOfThisUser(socket.get()) || new_links_.size() >= config_.max_workers) {
    return;
  }
  new_links_.push_back({std::move(socket), clock_.NowNs()});
}

void ServiceLoop::TakeLink(NewLink* link) {
  const FileDescriptor socket = std::exchange(link->socket, FileDescriptor());
  std::byte bytes[sizeof(uint64_t)];
  if (recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT) != sizeof(bytes)) return;
  const auto id = Get<uint64_t>(bytes, 0);
  for (const auto& [number, peer] : peers_) {
    if (peer->state != Peer::State::kWelcomed || id == 0 || peer->link_id != id) continue;
    if (!SendDescriptor(socket.get(), memory_.ForReading().get())) return;
    peer->link = FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    return;
  }
}

void ServiceLoop::Receive(uint64_t id) {
  Peer* const peer = peers_.at(id).get();
  peer->heard_ns = clock_.NowNs();
  const bool goes_on = peer->connection.Receive([&](const FrameDecoder::Frame& frame) {
    return peer->state == Peer::State::kClosing || OnFrame(peer, id, frame);
  });
  if (!goes_on) Close(id, "the connection ended");
}

void ServiceLoop::Deliver() {
  std::vector<Dispatcher::Delivery> deliveries;
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    is_woken_ = false;
    while (auto delivery = dispatcher_.NextDelivery()) deliveries.push_back(*delivery);
    counts_.sent += deliveries.size();
  }
  for (const Dispatcher::Delivery& each : deliveries) {
    Peer& peer = *peers_.at(each.to);
    BatchHeader header{each.number, each.batch, static_cast<uint32_t>(each.slot)};
    const BatchMaker::LayerInfo& info = maker_.layers()[peer.layer];
    metrics_.AddSent(peer.uses_memory, info.bytes);
    if (peer.uses_memory) {
      peer.connection.Send(MakeBatchFrame(header, 0));
      continue;
    }
    header.slot = kNoSlot;
    const auto* const values = reinterpret_cast<const char*>(memory_.slot(each.slot) + info.offset);
    const auto sent = [this, id = each.to, number = each.number] {
      boost::unique_lock<boost::mutex> lock(mutex_);
      dispatcher_.LeaveSlot(id, number);
      may_have_work_ = true;
    };
    peer.connection.Send(MakeBatchFrame(header, info.bytes), {values, info.bytes}, sent);
  }
}

void ServiceLoop::Tick() {
  const int64_t now = clock_.NowNs();
  std::vector<std::pair<uint64_t, const char*>> closed;
  for (const auto& [id, peer] : peers_) {
    if (peer->state == Peer::State::kChallenged && now - peer->since_ns > kHelloNs) {
      closed.emplace_back(id, "it says nothing");
    } else if (now - peer->heard_ns > timeout_ns_) {
      closed.emplace_back(id, "it is silent");
    } else if (now - peer->sent_ns > timeout_ns_ / 4 && !peer->connection.wants_to_send() &&
               peer->state != Peer::State::kClosing) {
      peer->sent_ns = now;
      peer->connection.Send(MakeFrame(FrameKind::kPing));
    }
  }
  for (const auto& [id, why] : closed) Close(id, why);
  ReturnLost();
  RefuseAll();
  if (now - metrics_ns_ < kMetricsNs) return;
  metrics_ns_ = now;
  metrics_.Update(counts());
}

void ServiceLoop::Close(uint64_t id, const char* why) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const std::unique_ptr<Peer> peer = std::move(found->second);
  peers_.erase(found);
  if (peer->sequence == 0) return;  // it never had batches
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (peer->uses_memory) {
    dispatcher_.Abandon(id);
    abandoned_[id] = std::move(peer->link);
  } else {
    dispatcher_.Remove(id);
  }
  work_.notify_all();
  const bool has_others = std::any_of(peers_.begin(), peers_.end(), [&](const auto& other) {
    return other.second->sequence == peer->sequence;
  });
  LOG(INFO) << "Worker " << peer->text << (peer->said_bye ? " has ended" : StrCat(": ", why));
  if (has_others || !ledger_) return;
  // What it has not trained on is for others: at once if it said so.
  lost_[peer->sequence] = clock_.NowNs() - (peer->said_bye ? timeout_ns_ + 1 : 0);
}

void ServiceLoop::ReturnLost() {
  const int64_t now = clock_.NowNs();
  for (auto each = lost_.begin(); each != lost_.end();) {
    if (now - each->second <= timeout_ns_) {
      ++each;
      continue;
    }
    boost::unique_lock<boost::mutex> lock(mutex_);
    const size_t returned = ledger_->ReturnAll(each->first);
    counts_.returned += returned;
    if (returned > 0) {
      LOG(INFO) << "Gives " << returned << " batches of a worker that has gone to others";
      work_.notify_all();
    }
    each = lost_.erase(each);
  }
}

BatchServer::BatchServer(const BatchServerConfig& config, BatchMaker* maker)
    : errors_(std::make_unique<ErrorSink>()),
      loop_(std::make_unique<ServiceLoop>(config, maker, errors_.get())) {}
BatchServer::~BatchServer() = default;
std::string BatchServer::address() const { return loop_->address(); }
uint64_t BatchServer::memory_bytes() const { return loop_->memory_bytes(); }
BatchServerCounts BatchServer::counts() const { return loop_->counts(); }
bool BatchServer::has_failed() const { return errors_->failed(); }
void BatchServer::RethrowIfFailed() const { errors_->RethrowIfFailed(); }

}  // namespace millrace::inline batches
