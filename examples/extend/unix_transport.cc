// A transport: Unix datagram sockets between processes of one machine.
//   node { name: "a" option { key: "socket" value: "run7.a" } }
//   segment { name: "machine" transport: "unix" mtu: 16000 }
// Each pair of nodes has a pair of sockets, connected to each other. That of node 0 for node 1 has
// the abstract name "run7.a.1", which ends with its process. The kernel delivers every datagram
// once, only from the other socket of the pair, and refuses it while too many have not been
// received.
#include <millrace/error.h>
#include <millrace/file_descriptor.h>
#include <millrace/transport_registry.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

namespace {

using millrace::DropReason;
using millrace::FileDescriptor;
using millrace::InFrame;
using millrace::OutFrame;
using millrace::SendStatus;

constexpr size_t kBuffers = 256;      // received frames that the caller has not released
constexpr size_t kMaxNameBytes = 96;  // of the option "socket"

// The abstract name of one node's socket for another.
class SocketName {
 public:
  SocketName(const std::string& node, millrace::NodeId other) {
    const std::string name = node + "." + std::to_string(other);
    if (node.empty() || node.size() > kMaxNameBytes) {
      throw millrace::Error("transport unix: socket name '", node, "': expected 1 to ",
                            kMaxNameBytes, " bytes");
    }
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path + 1, name.size());  // after a byte of zero
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_un address_{};
  socklen_t length_;
};

FileDescriptor Bind(const SocketName& name, const std::string& node, int send_buffer_bytes) {
  FileDescriptor file(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (file.get() < 0 || bind(file.get(), name.address(), name.length()) != 0) {
    throw millrace::Error("transport unix: socket=", node, ": ", std::strerror(errno),
                          "; expected a name that no other process has");
  }
  // The kernel may grant less.
  setsockopt(file.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof(send_buffer_bytes));
  return file;
}

class UnixTransport : public millrace::Transport {
 public:
  UnixTransport(millrace::TransportInfo info, const std::string& own,
                const std::map<millrace::NodeId, std::string>& peers, int send_buffer_bytes,
                const millrace::Clock& clock)
      : Transport(std::move(info)),
        clock_(clock),
        stride_((info_.max_frame_bytes + 7) / 8 * 8),
        memory_(kBuffers * stride_ / 8),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_.get() < 0) throw millrace::Error("transport unix: eventfd: ", std::strerror(errno));
    for (const auto& [node, name] : peers) {
      peers_.push_back({.node = node,
                        .name = SocketName(name, info_.node),
                        .socket = Bind(SocketName(own, node), own, send_buffer_bytes)});
      Connect(&peers_.back());  // if it has been started
      info_.peers.push_back(node);
    }
    IndexPeers();
    polled_.resize(peers_.size() + 1);
  }

  millrace::SendResult Send(std::span<const OutFrame> frames) override {
    millrace::SendResult result;
    uint64_t bytes = 0, transmissions = 0;
    for (; result.accepted < frames.size(); ++result.accepted) {
      const OutFrame& frame = frames[result.accepted];
      result.status = Check(frame);
      if (result.status == SendStatus::kAccepted && !SendOne(frame, &transmissions)) {
        result.status = SendStatus::kBusy;
        counters_.Busy();
      }
      if (result.status != SendStatus::kAccepted) break;
      bytes += frame.bytes();
    }
    counters_.Sent(result.accepted, bytes, transmissions);
    return result;
  }

  // The kernel has copied every accepted frame.
  uint64_t Reclaim() override { return counters_.frames_sent(); }

  size_t Receive(std::span<InFrame> frames) override {
    size_t count = 0;
    uint64_t bytes = 0;
    first_ = first_ + 1 < peers_.size() ? first_ + 1 : 0;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const Peer& peer = peers_[(first_ + i) % peers_.size()];
      while (count < frames.size() && used_ < kBuffers) {
        auto* const buffer = reinterpret_cast<std::byte*>(memory_.data()) + used_ * stride_;
        const ssize_t length = recv(peer.socket.get(), buffer, stride_, MSG_TRUNC);
        if (length < 0) break;  // nothing is there, or an error that is now forgotten
        if (static_cast<size_t>(length) > info_.max_frame_bytes) {
          counters_.Drop(DropReason::kMalformed);
          continue;
        }
        frames[count++] = {peer.node, {buffer, static_cast<size_t>(length)}};
        bytes += static_cast<size_t>(length);
        ++used_;
      }
    }
    counters_.Received(count, bytes);
    return count;
  }

  void Release() override { used_ = 0; }

  millrace::WaitResult Wait(int64_t deadline_ns, millrace::WaitFor what) override {
    const bool wants_room = what == millrace::WaitFor::kReceiveOrSend;
    for (;;) {
      millrace::WaitResult result;
      bool full = false;
      for (size_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        Connect(&peer);  // a peer that has been started again has another socket
        polled_[i] = {peer.socket.get(), 0, 0};
        if (used_ < kBuffers) polled_[i].events |= POLLIN;
        if (wants_room && peer.full) polled_[i].events |= POLLOUT;
        full = full || peer.full;
      }
      polled_.back() = {wake_.get(), POLLIN, 0};
      result.sendable = wants_room && !full;
      const int64_t ns = result.sendable ? 0 : millrace::SleepNs(clock_, deadline_ns);
      const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
      ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
      for (size_t i = 0; i < peers_.size(); ++i) {
        // Receive takes note of errors as well.
        if (polled_[i].revents & (POLLIN | POLLERR)) result.receivable = true;
        if (!(polled_[i].revents & POLLOUT)) continue;
        peers_[i].full = false;
        result.sendable = true;
      }
      uint64_t wakes = 0;
      result.woken = read(wake_.get(), &wakes, sizeof(wakes)) == sizeof(wakes);
      if (ns == 0 || result.receivable || result.sendable || result.woken) return result;
    }
  }

  void Wake() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  }

  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {std::as_bytes(std::span(memory_))};
  }

 private:
  struct Peer {
    millrace::NodeId node;
    SocketName name;        // of its socket for this node
    FileDescriptor socket;  // this node's
    bool connected = false;
    bool full = false;  // has refused a frame and has had no room since
  };

  static bool Connect(Peer* peer) {
    peer->connected = connect(peer->socket.get(), peer->name.address(), peer->name.length()) == 0;
    return peer->connected;
  }

  // False: there is no room now. A frame to all is accepted if one peer takes it: a process that
  // has been stopped does not hold up the others.
  bool SendOne(const OutFrame& frame, uint64_t* transmissions) {
    uint64_t sent = 0, full = 0, gone = 0;
    for (Peer& peer : peers_) {
      if (frame.to != millrace::kAllNodes && frame.to != peer.node) continue;
      const int error = SendTo(&peer, frame);
      peer.full = error == EAGAIN;
      ++(error == 0 ? sent : peer.full ? full : gone);
    }
    if (sent + gone == 0 && full > 0) return false;
    if (full > 0) counters_.Drop(DropReason::kOverrun, full);
    if (gone > 0) counters_.Drop(DropReason::kUnreachable, gone);
    *transmissions += sent + full + gone;
    return true;
  }

  // 0, EAGAIN if the peer has no room, or another error.
  static int SendTo(Peer* peer, const OutFrame& frame) {
    iovec pieces[] = {{const_cast<std::byte*>(frame.header.data()), frame.header.size()},
                      {const_cast<std::byte*>(frame.payload.data()), frame.payload.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!peer->connected && !Connect(peer)) break;
      if (sendmsg(peer->socket.get(), &message, MSG_NOSIGNAL) >= 0) return 0;
      if (errno == EAGAIN || errno == ENOBUFS) return EAGAIN;
      peer->connected = false;
    }
    return errno;
  }

  const millrace::Clock& clock_;
  const size_t stride_;           // of a buffer, in bytes
  std::vector<uint64_t> memory_;  // the buffers, aligned to 8 bytes
  size_t used_ = 0;               // buffers in use, from the front
  size_t first_ = 0;              // index of the peer that is received from first
  const FileDescriptor wake_;
  std::vector<Peer> peers_;
  std::vector<pollfd> polled_;  // one for each peer, then wake_
};

millrace::TransportDescriptor Descriptor() {
  millrace::TransportDescriptor descriptor;
  descriptor.name = "unix";
  descriptor.description = "Unix datagram sockets between processes of one machine";
  descriptor.reach = millrace::TransportReach::kMachine;
  descriptor.addressing.keys = {
      {.name = "socket",
       .noun = "socket name",
       .expected = "the name of the sockets of $ for",
       .is_valid = [](const std::string& value) { return value.size() <= kMaxNameBytes; }}};
  descriptor.addressing.locate = [](const millrace::AdapterFields& adapter, int) {
    return adapter.Get("socket");
  };
  descriptor.addressing.own_option = "socket";
  descriptor.options = {"socket", "peers", "max_frame_bytes", "send_buffer_bytes"};
  // The socket adds no bytes to a frame.
  descriptor.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  return descriptor;
}

std::unique_ptr<millrace::Transport> Make(const millrace::TransportConfig& config) {
  millrace::TransportInfo info;
  info.name = config.transport;
  info.node = config.node;
  info.max_frame_bytes = static_cast<size_t>(config.Int("max_frame_bytes", 8192, 64, 1 << 16));
  info.copies = true;
  const auto buffer = static_cast<int>(config.Int("send_buffer_bytes", 1 << 20, 1 << 17, 1 << 30));
  return std::make_unique<UnixTransport>(std::move(info), config.Text("socket"),
                                         config.Peers("NAME"), buffer, *config.clock);
}

const millrace::RegisterTransport registered(Descriptor(), Make);

}  // namespace
