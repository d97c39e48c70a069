// The RDMA link: combines a device's port, a queue pair with its sender and receiver, multicast
// groups and the peer resolver.
#ifndef MILLRACE_TRANSPORT_VERBS_LINK_H_
#define MILLRACE_TRANSPORT_VERBS_LINK_H_

#include <map>
#include <memory>
#include <vector>

#include "transport/datagram_link.h"
#include "transport/verbs/device.h"
#include "transport/verbs/groups.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/receiver.h"
#include "transport/verbs/resolver.h"
#include "transport/verbs/sender.h"
#include "transport/verbs/wire.h"

namespace millrace::inline transport {

// Parameters determined by ConnectVerbs.
struct VerbsPlan {
  NodeId node = 0;
  uint16_t group = 0;
  std::map<NodeId, InetAddress> peers;
  std::string multicast_base;
  bool multicast = false;           // join multicast groups
  bool multicast_required = false;  // failure to join this node's own group is an error
  size_t datagram_bytes = 0;        // largest datagram
  size_t send_slots = 0, receive_buffers = 0;
};

class VerbsLink : public DatagramLink {
 public:
  // Throws Error with one line. Logs once which groups could not be joined.
  VerbsLink(std::unique_ptr<VerbsDevice> device, const VerbsPlan& plan);
  ~VerbsLink() override;

  // Whether Add supports kAllPeers.
  bool multicasts() const { return own_group_.has_value(); }

  bool Reaches(size_t peer) const override { return routes_[peer].address != nullptr; }
  bool RegisterMemory(std::span<const std::byte> memory) override;
  uint64_t Unfinished() override;
  void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) override;
  Flushed Flush() override;
  bool SendCredit(size_t peer, const ControlMessage& credit) override;
  bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) override;
  bool Read(Sink* sink) override;
  void GiveBack(uint64_t position) override { receiver_.GiveBack(position); }
  uint64_t head() const override { return receiver_.head(); }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {receiver_.memory()};
  }
  Polled Poll(int wake, int64_t ns, bool wants_room) override;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  // An address handle that requests in flight may still use.
  struct Retired {
    std::shared_ptr<ibv_ah> address;
    uint64_t added;  // datagrams added up to its retirement
  };

  std::vector<bool> JoinGroups(const VerbsPlan& plan);
  VerbsPrefix PrefixFor(NodeId to, DatagramKind kind, uint16_t tag, uint32_t sequence) const;
  bool HasJoinedGroup(size_t peer) const { return group_works_ && routes_[peer].joined; }
  // Number of datagrams for a frame to that peer (or to kAllPeers).
  size_t DatagramsFor(size_t peer) const;
  bool HasRoom(size_t datagrams);
  bool SendsAgain();
  void AddTo(const VerbsDestination& to, const VerbsPrefix& prefix, const OutFrame& frame,
             bool ends_frame);
  bool SendNow(size_t peer, NodeId to, DatagramKind kind, const ControlMessage& message);
  VerbsDestination Destination(size_t peer) const;
  bool TakeDatagram(std::span<const std::byte> bytes, uint32_t queue_pair, uint64_t position,
                    Sink* sink);
  // TakeUpdates applies the resolver's updates. ReplaceQueuePair replaces a broken queue pair.
  void TakeUpdates(Sink* sink);
  void ReplaceQueuePair();

  const NodeId node_;
  const uint16_t group_;
  std::vector<NodeId> nodes_;    // by peer index
  std::vector<size_t> by_node_;  // kNone: not a peer
  const std::unique_ptr<VerbsDevice> device_;
  VerbsQueuePair queue_;
  VerbsSender sender_;
  VerbsReceiver receiver_;
  std::unique_ptr<VerbsGroups> groups_;  // null: multicast is off
  std::optional<VerbsGroups::Joined> own_group_;
  bool group_works_ = false;
  std::vector<VerbsRoute> routes_, fresh_;
  std::vector<Retired> retired_;
  std::vector<uint32_t> unanswered_;  // probes since the peer's last datagram
  std::unique_ptr<VerbsResolver> resolver_;
  bool reported_broken_ = false;
  size_t refused_ = 0;  // datagrams that the last request for room was for; 0: it succeeded
  Flushed flushed_;     // the next result of Flush
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_LINK_H_
