// A segment between the weights of machines: one exchange over one transport, on a range of
// this machine's weight array, which lies in host memory or in a device's (replica_home.h).
//
// The logic of one pass is here, without a thread: segment_thread.h runs it. A pass
// takes what has arrived, tells the exchange how far this node's solvers are, sends
// what the pace and the transport let through, and says when to look again.
//
// On a device kernels work on what has arrived while a pass takes in more and offers what it
// still holds; it waits for them before it asks the exchange for frames, and gives received
// frames back to the transport after that (docs/gpu.md).
#ifndef MILLRACE_SEGMENT_NET_SEGMENT_H_
#define MILLRACE_SEGMENT_NET_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exchange/kernels/merge_rule.h"
#include "exchange/protocol/exchange.h"
#include "segment/divergence_sampler.h"
#include "segment/gossip/gossip.h"
#include "segment/handshake/frame_filter.h"
#include "segment/link_log.h"
#include "segment/merged_reader.h"
#include "segment/pacer.h"
#include "segment/replica_device.h"
#include "segment/segment_metrics.h"
#include "segment/staleness_watch.h"
#include "transport/transport.h"

namespace millrace {

struct NetSegmentConfig {
  std::string name;  // of the segment, for messages
  ExchangeConfig exchange;
  MergeRuleConfig rule;
  // 0: as many as the transport's frames carry. Equal on all nodes of the segment.
  int64_t chunk_floats = 0;
  double max_bytes_per_second = 0;  // that this node puts on the wire; 0: no limit
  // The node that leads while it is a member in sync: the one through which the others reach
  // the rest of the cluster. Else the lowest that is.
  NodeId leader = 0;
  // Names, digests and key; the rest is filled in from the above.
  FrameFilterConfig filter;
  // Of this node, which its segments share; null: the segment carries no gossip messages.
  std::shared_ptr<GossipStore> gossip;
};

// The most floats of a chunk for frames of `max_frame_bytes`; 0 if not even one fits
// or a heartbeat does not.
int64_t ChunkFloatsFor(size_t max_frame_bytes, const ExchangeConfig& config);

// What the segment and the solvers tell each other. Thread-safe.
class SegmentState {
 public:
  // Iterations that the segment is to count as this node's; never falls.
  void SetProgress(uint64_t iterations) { progress_.store(iterations, std::memory_order_release); }
  uint64_t progress() const { return progress_.load(std::memory_order_acquire); }

  // Merges that this segment has made into the weights so far.
  uint64_t merges() const { return merges_.load(std::memory_order_acquire); }
  // Those of all other segments on the same weights: what they merged goes on through
  // this one. Never falls.
  void SetOtherMerges(uint64_t count) { other_merges_.store(count, std::memory_order_release); }

  // This node's weights are those of the run as far as other segments bring them, so a segment
  // that bootstraps_when_allowed may begin with them.
  void AllowBootstrap() { may_bootstrap_ = true; }

  // This node's weights are those of the run.
  bool in_sync() const { return in_sync_; }
  // It is so because this node began the run, with its own weights.
  bool bootstrapped() const { return bootstrapped_; }
  // Iterations of all nodes together, as far as this one knows.
  uint64_t global_iterations() const { return global_; }
  // Of these, those that are not this node's own, nor what SetProgress was given for
  // others.
  uint64_t others() const { return others_; }
  // Of the members in sync the one that does what is to be done once.
  bool is_leader() const { return leads_; }
  // Of the view, also those that join or leave; 0 while this node is in none.
  uint32_t members() const { return members_; }

  // When a frame of another node of the segment last came in; 0 if none has.
  int64_t heard_ns() const { return heard_ns_; }

  // Asks for Exchange::Flush.
  void RequestFlush() { flush_ = true; }
  void RequestLeave() { leave_ = true; }
  bool left() const { return left_; }
  // All that this node had is with the others, as far as it knows: while it leaves, or once it
  // has left.
  bool delivered() const { return delivered_; }
  // How many of GossipStore::changes() the other members have, as far as they get them
  // from here.
  uint64_t all_acked() const { return gossip_seen_; }
  // Why this node, which has not joined yet, gives up; "" if it does not. Then the segment
  // does nothing more.
  std::string refusal() const {
    std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  friend class NetSegment;
  std::atomic<uint64_t> progress_{0}, global_{0}, others_{0};
  std::atomic<uint64_t> merges_{0}, other_merges_{0}, gossip_seen_{0};
  std::atomic<int64_t> heard_ns_{0};
  std::atomic<uint32_t> members_{0};
  std::atomic<bool> in_sync_{false}, bootstrapped_{false}, leads_{false};
  std::atomic<bool> flush_{false}, leave_{false}, left_{false}, delivered_{false};
  std::atomic<bool> may_bootstrap_{false};
  mutable std::mutex mutex_;
  std::string refusal_;
};

// Not thread-safe, but for names, state(), meters(), what merged() says, and transport()'s Wake
// and counters.
class NetSegment {
 public:
  struct Next {
    bool at_once = false;     // there is more to do now
    int64_t deadline_ns = 0;  // else: at this time, if nothing arrives before
    WaitFor what = WaitFor::kReceive;
  };

  // `weights`: `count` floats in the memory of `home`, which outlive the segment and which
  // solvers change meanwhile. Allocates twice as much there. Throws Error for settings that
  // make no sense.
  NetSegment(const NetSegmentConfig& config, std::unique_ptr<Transport> transport, float* weights,
             int64_t count, const ReplicaDevice& home = HostReplica());
  // Waits until no kernel of the segment's touches any memory.
  ~NetSegment();

  // Throws Error when the replica's device has failed, and from then on always.
  Next Pass(int64_t now_ns);
  // The thread that calls Pass may use `duty` of a processor, and took `taken` of the solvers'
  // time: for the meters, and below a duty of 1 for the order in which weights travel.
  void SetPace(double duty, double taken);
  // Times that a chunk was exchanged so far (exchange/protocol/peer_metrics.h), on average over the
  // chunks.
  double MeanExchanges() const;

  const std::string& name() const { return config_.name; }
  Transport& transport() { return *transport_; }
  const Transport& transport() const { return *transport_; }
  SegmentState& state() { return state_; }
  const SegmentState& state() const { return state_; }
  const SegmentMetrics& metrics() const { return *metrics_; }
  // Passes serve its requests; Wake the transport after a Begin.
  MergedReader& merged() { return *merged_; }
  // As the topology has it; "" if there is no such node.
  std::string NameOf(NodeId node) const;
  const Exchange& exchange() const { return *exchange_; }
  const FrameFilter& filter() const { return *filter_; }
  int64_t heartbeat_ns() const { return config_.exchange.heartbeat_ns; }
  // Null if it carries none.
  const Gossip* gossip() const { return gossip_.get(); }
  int64_t chunk_floats() const { return arrays_.chunk_floats; }
  // Of its range.
  int64_t floats() const { return arrays_.size; }

 private:
  Next Work(int64_t now_ns);
  void MakeExecutor(int64_t most_floats, float* weights, int64_t count);
  bool SendsDirect(const float* weights, int64_t count);
  void FinishReceived(int64_t now_ns);
  Next HoldBack(JoinVerdict verdict, int64_t now_ns);
  void FollowIncarnation();
  bool Receive(int64_t now_ns);
  size_t TakeBatch(int64_t now_ns, size_t* received);
  bool Send(int64_t now_ns);
  uint64_t SendForeign(const OutFrame& frame);
  void Spend(uint64_t wire_bytes);
  void Introduce(int64_t now_ns);
  void Admit();
  void SendGossip(int64_t now_ns);
  bool OfferNews(int64_t now_ns);
  void Fetch(int64_t now_ns);
  void Offer();
  bool IsFull(NodeId destination) const;
  void Reclaim();
  void Publish(int64_t now_ns);
  void WatchStaleness(int64_t now_ns);
  size_t Affordable(int64_t now_ns);
  uint64_t WireBytes(NodeId to, size_t frame_bytes) const;

  const NetSegmentConfig config_;
  const ReplicaDevice home_;
  Buffer memory_;  // base and pending; the transport may read it where it is the host's
  const std::unique_ptr<Transport> transport_;
  ReplicaArrays arrays_;
  std::unique_ptr<ChunkExecutor> executor_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<FrameFilter> filter_;
  std::unique_ptr<Gossip> gossip_;
  std::unique_ptr<LinkLog> link_log_;
  const size_t transmissions_of_multicast_;
  const double most_wire_bytes_;  // of one frame
  Pacer pacer_;

  std::vector<InFrame> in_;
  std::vector<std::span<const std::byte>> views_;
  std::vector<PostedFrame> held_;  // fetched from the exchange, not accepted yet
  std::vector<NodeId> full_;       // destinations without room, of one Offer
  std::vector<OutFrame> out_;      // the same, for the transport
  std::vector<OutHandshake> handshake_;
  uint64_t handshakes_sent_at_ = 0;    // frames accepted up to the last handshake message
  std::vector<OutGossip> gossip_out_;  // under way
  std::vector<size_t> unsent_gossip_;  // those of them that the transport had no room for
  int64_t drop_gossip_ns_ = 0;         // until then they are offered again
  uint64_t gossip_seen_ = 0;           // frames accepted up to the last of these
  uint64_t admitted_lives_ = 0;        // of the peers, to the gossip messages
  uint32_t incarnation_ = 0;           // of the handshake messages, as the others were told
  bool held_back_ = false;             // this node has been, and the log says so
  std::vector<uint32_t> accepted_;     // slots by the order in which frames were accepted
  uint64_t accepted_count_ = 0, reclaimed_ = 0;
  bool busy_ = false, paced_ = false, leaving_ = false;
  bool has_pace_ = false, slowed_ = false;  // SetPace was called, with a duty below 1
  uint64_t told_ = 0;                       // of this node's progress, to the exchange
  uint64_t told_merges_ = 0;                // of the other segments

  SegmentState state_;
  std::unique_ptr<DivergenceSampler> sampler_;
  std::unique_ptr<MergedReader> merged_;
  StalenessWatch staleness_;
  std::unique_ptr<SegmentMetrics> metrics_;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_NET_SEGMENT_H_
