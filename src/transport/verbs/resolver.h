// Resolves the peers of an endpoint. A separate thread looks up peers through rdma_cm, answers
// the look-ups of peers, monitors the port, and looks up again whenever something may have
// changed. It uses real time, as the kernel's part of the protocol does.
//
// Thread-safety: one thread, the owner's, calls all public functions. Only the constructor
// throws.
#ifndef MILLRACE_TRANSPORT_VERBS_RESOLVER_H_
#define MILLRACE_TRANSPORT_VERBS_RESOLVER_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "millrace/file_descriptor.h"
#include "transport/inet_address.h"
#include "transport/verbs/device.h"
#include "transport/verbs/groups.h"
#include "transport/verbs/wire.h"

namespace millrace::inline transport {

// How to reach a peer.
struct VerbsRoute {
  std::shared_ptr<ibv_ah> address;  // null: not resolved yet
  uint32_t queue_pair = 0, key = 0;
  bool joined = false;  // the peer has joined this node's multicast group
};

struct VerbsResolverPlan {
  NodeId node = 0;
  uint16_t group = 0;
  std::map<NodeId, InetAddress> peers;
  std::vector<bool> joined;  // by index: this node has joined the peer's group
  uint32_t queue_pair = 0;   // this node's
  size_t send_bytes = 0;     // largest datagram sent ...
  size_t receive_bytes = 0;  // ... and received
};

class VerbsResolver {
 public:
  // `device` and `groups` (may be null) outlive the resolver. From now on only the resolver's
  // thread uses `groups`.
  VerbsResolver(const VerbsDevice* device, VerbsGroups* groups, const VerbsResolverPlan& plan);
  ~VerbsResolver();

  // Readable while HasUpdates().
  int fd() const { return update_fd_.get(); }
  bool HasUpdates() const { return has_updates_.load(std::memory_order_acquire); }
  // Copies the current routes, one per peer, and clears HasUpdates().
  void TakeUpdates(std::vector<VerbsRoute>* routes);
  // This node's own group is lost: its multicasts reach nobody.
  bool group_lost() const { return group_lost_.load(std::memory_order_relaxed); }

  // The peer may have moved or restarted: looks it up again.
  void Suspect(size_t peer);
  // The queue pair is broken. port_recovered() becomes true once the port is active.
  void ReportBroken();
  bool port_recovered() const { return port_recovered_.load(std::memory_order_relaxed); }
  // The queue pair was replaced; peers learn the new number.
  void ReportRenewed(uint32_t queue_pair);

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { kIdle, kAsking, kKnown };
  struct Peer {
    NodeId node = 0;
    InetAddress address;
    CmId id;  // of the look-up in progress
    State state = State::kIdle;
    Time due{};  // time of the next look-up, or timeout of the current one
    std::chrono::milliseconds pause{};
    bool complained = false;
  };

  void Run();
  void Commands();
  int Timeout() const;  // ms
  void AskDue();
  void Ask(size_t peer);
  void AskSoon(size_t peer);
  void AskAll();
  void Fail(size_t peer);
  void TakeEvents();
  void Connect(rdma_cm_id* id, size_t peer);
  void Answer(const rdma_cm_event& event, rdma_cm_id* id);
  void Found(size_t peer, const rdma_cm_event& event);
  bool Fits(size_t peer, const VerbsHello& hello);
  void TakeDeviceEvents();
  void TakeGroupEvents();
  size_t IndexOf(NodeId node) const;
  VerbsHello HelloTo(size_t peer) const;
  // Applies `change` to the peer's route and signals the update.
  template <typename Change>
  void Publish(size_t peer, Change change);
  void Ring(const FileDescriptor& fd);

  const VerbsDevice& device_;
  VerbsGroups* const groups_;
  VerbsResolverPlan plan_;
  const FileDescriptor update_fd_, command_fd_;
  std::vector<Peer> peers_;

  std::mutex mutex_;  // guards routes_ and suspects_
  std::vector<VerbsRoute> routes_;
  std::vector<bool> suspects_;
  std::atomic<bool> has_updates_{false}, group_lost_{false};
  std::atomic<bool> broken_{false}, port_recovered_{false}, stop_{false};
  std::atomic<uint32_t> queue_pair_;
  uint32_t announced_queue_pair_;
  std::thread thread_;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_RESOLVER_H_
