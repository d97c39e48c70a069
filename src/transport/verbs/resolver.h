// Where an endpoint's peers are: a thread of its own looks them up through rdma_cm, answers
// those that look this node up, watches the port, and looks again whenever something may
// have changed. By real time, as the kernel's side of it.
//
// Its owner, one thread, calls everything but the constructor's thread; nothing but the
// constructor throws.
#ifndef MILLRACE_TRANSPORT_VERBS_RESOLVER_H_
#define MILLRACE_TRANSPORT_VERBS_RESOLVER_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/inet_address.h"
#include "transport/verbs/device.h"
#include "transport/verbs/groups.h"
#include "transport/verbs/wire.h"

namespace millrace {

// How to reach a peer.
struct VerbsRoute {
  std::shared_ptr<ibv_ah> address;  // null: it has not been found yet
  uint32_t queue_pair = 0, key = 0;
  bool hears = false;  // gets what this node multicasts
};

struct VerbsResolverPlan {
  NodeId node = 0;
  uint16_t group = 0;
  std::map<NodeId, InetAddress> peers;
  std::vector<bool> heard;   // by index: this node has joined the peer's group
  uint32_t queue_pair = 0;   // this node's
  size_t send_bytes = 0;     // the longest datagrams that it sends ...
  size_t receive_bytes = 0;  // ... and takes
};

class VerbsResolver {
 public:
  // `device` outlives it; `groups` (null: none) too, and is the thread's from now on.
  VerbsResolver(const VerbsDevice* device, VerbsGroups* groups, const VerbsResolverPlan& plan);
  ~VerbsResolver();

  // Readable while HasNews().
  int fd() const { return news_fd_.get(); }
  bool HasNews() const { return has_news_.load(std::memory_order_acquire); }
  // Copies what has changed since the last call; `routes` has one for each peer.
  void TakeNews(std::vector<VerbsRoute>* routes);
  // Whether this node's own group is lost: multicasts reach nobody.
  bool group_lost() const { return group_lost_.load(std::memory_order_relaxed); }

  // The peer may be elsewhere, or anew.
  void Suspect(size_t peer);
  // The queue pair is broken: from then on mends() tells once the port is active.
  void ReportBroken();
  bool mends() const { return mends_.load(std::memory_order_relaxed); }
  // It was replaced by another, which the peers must be told.
  void ReportRenewed(uint32_t queue_pair);

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { kIdle, kAsking, kKnown };
  struct Peer {
    NodeId node = 0;
    InetAddress address;
    CmId id;  // of the look-up under way
    State state = State::kIdle;
    Time due{};  // of the next look-up, or of giving this one up
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
  void TakeEvent(const rdma_cm_event& event, CmId* request);
  void Connect(rdma_cm_id* id, size_t peer);
  void Answer(const rdma_cm_event& event, rdma_cm_id* id);
  void Found(size_t peer, const rdma_cm_event& event);
  bool Fits(size_t peer, const VerbsHello& hello);
  void TakeDeviceEvents();
  void TakeGroupEvents();
  size_t IndexOf(NodeId node) const;
  VerbsHello HelloTo(size_t peer) const;
  // Publishes a change of a route.
  template <typename Change>
  void Publish(size_t peer, Change change);
  void Ring(const FileDescriptor& fd);

  const VerbsDevice& device_;
  VerbsGroups* const groups_;
  VerbsResolverPlan plan_;
  const FileDescriptor news_fd_, command_fd_;
  std::vector<Peer> peers_;

  std::mutex mutex_;  // of routes_ and suspects_
  std::vector<VerbsRoute> routes_;
  std::vector<bool> suspects_;
  std::atomic<bool> has_news_{false}, group_lost_{false};
  std::atomic<bool> broken_{false}, mends_{false}, stop_{false};
  std::atomic<uint32_t> queue_pair_;
  uint32_t told_queue_pair_;
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_RESOLVER_H_
