// A network segment: one exchange over one transport, on a range of this node's weight array. The
// array lies in host memory or in a device's memory (replica_device.h).
//
// This file has the logic of one pass, without a thread; segment_thread.h runs it. A pass takes in
// received frames, reports the solvers' progress to the exchange, sends as many frames as the pacer
// and the transport allow, and returns the time of the next pass.
//
// On a device, kernels process received frames while the pass takes in more frames and offers the
// frames that it still holds to the transport. The pass waits for the kernels, returns the receive
// buffers to the transport, and only then fetches frames from the exchange (docs/gpu.md).
#ifndef MILLRACE_SEGMENT_NET_SEGMENT_H_
#define MILLRACE_SEGMENT_NET_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exchange/kernels/rules/merge_rule_registry.h"
#include "exchange/protocol/exchange.h"
#include "millrace/transport.h"
#include "segment/divergence_sampler.h"
#include "segment/gossip/gossip.h"
#include "segment/handshake/frame_filter.h"
#include "segment/link_log.h"
#include "segment/merged_reader.h"
#include "segment/pace.h"
#include "segment/replica_device.h"
#include "segment/segment_metrics.h"
#include "segment/staleness_watch.h"

namespace millrace::inline segment {

struct NetSegmentConfig {
  std::string name;  // for log lines and errors
  ExchangeConfig exchange;
  // Sets exchange.rest_distance.
  MergeRuleConfig rule;
  // Floats of a chunk. 0: as many as the transport's frames carry. Equal on all nodes of the
  // segment.
  int64_t chunk_floats = 0;
  double max_bytes_per_second = 0;  // limit for this node, on the wire; 0: none
  // Preferred leader: the gateway node of the segment, while it is a synced member.
  // Otherwise the leader is the synced member with the lowest id.
  NodeId leader = 0;
  // The caller sets names, digests and key. The constructor sets run, node, incarnation and segment
  // parameters from the fields above and the transport.
  FrameFilterConfig filter;
  // Gossip store of this node, shared by its segments. Null: the segment carries no gossip
  // messages.
  std::shared_ptr<GossipStore> gossip;
  std::string staleness_remedies;  // of StalenessWatch
  // Holds the segment's metrics, with the label segment="name", and outlives the segment. Null: the
  // segment has a registry of its own.
  MetricsRegistry* registry = nullptr;
};

// Maximum floats of a chunk in frames of `max_frame_bytes`; a multiple of 16 where diffs or
// positions are int4. 0 if a chunk of one float or a heartbeat does not fit.
int64_t ChunkFloatsFor(size_t max_frame_bytes, const ExchangeConfig& config);

// State shared between the segment's thread and the rest of the node. Thread-safe.
class SegmentState {
 public:
  // Iterations that the segment reports as this node's, including remote iterations that other
  // segments brought. Never decreases. `unmerged`: see Exchange::SetProgress.
  void SetProgress(uint64_t iterations, uint64_t unmerged = 0) {
    unmerged_.store(unmerged, std::memory_order_relaxed);
    progress_.store(iterations, std::memory_order_release);
  }
  uint64_t progress() const { return progress_.load(std::memory_order_acquire); }

  // Merges into the weights by this segment so far.
  uint64_t merges() const { return merges_.load(std::memory_order_acquire); }
  // Merges into the same weights by all other segments. This segment has to pass them on. Never
  // decreases.
  void SetOtherMerges(uint64_t count) { other_merges_.store(count, std::memory_order_release); }

  // This node's weights are those of the run, as far as other segments supply them. A segment with
  // ExchangeConfig::bootstraps_when_allowed may bootstrap from now on.
  void AllowBootstrap() { may_bootstrap_ = true; }

  // From the next pass on, `peer` has this address (Transport::SetPeerAddress).
  void SetPeerAddress(NodeId peer, const std::string& address) {
    std::lock_guard lock(mutex_);
    moved_peers_.emplace_back(peer, address);
    has_moved_peers_ = true;
  }

  // Whether this node's weights are those of the run.
  bool in_sync() const { return in_sync_; }
  // Whether the run began with this node's weights and this node has been a member since.
  bool bootstrapped() const { return bootstrapped_; }
  // Iterations of all nodes together, as far as this node knows.
  uint64_t global_iterations() const { return global_; }
  // Global iterations beyond SetProgress: those of other nodes that this segment brought.
  uint64_t others() const { return others_; }
  // Whether this node is the leader: the synced member that does work which must be done once.
  bool is_leader() const { return leads_; }
  // Members of the view, including joining and leaving ones; 0 while this node is in no view.
  uint32_t members() const { return members_; }
  float staleness() const { return staleness_; }  // StalenessEstimate::iterations

  // Time of the last frame accepted from another node of the segment; 0: none yet.
  int64_t last_frame_ns() const { return last_frame_ns_; }

  // Requests Exchange::Flush.
  void RequestFlush() { flush_ = true; }
  void RequestLeave() { leave_ = true; }
  bool left() const { return left_; }
  // While this node leaves or after it has left: whether the other members have all its progress,
  // as far as it knows.
  bool delivered() const { return delivered_; }
  // Exchange::quiescent, as of the last pass.
  bool settled() const { return settled_; }
  // Value of GossipStore::changes() up to which all other members have acknowledged the messages
  // that they receive over this segment.
  uint64_t gossip_acked() const { return gossip_seen_; }
  // Reason why this node, which has not joined yet, gives up; "": it does not. After that the
  // segment never joins.
  std::string refusal() const {
    std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  friend class NetSegment;
  std::atomic<uint64_t> progress_{0}, unmerged_{0}, global_{0}, others_{0};
  std::atomic<uint64_t> merges_{0}, other_merges_{0}, gossip_seen_{0};
  std::atomic<int64_t> last_frame_ns_{0};
  std::atomic<uint32_t> members_{0};
  std::atomic<float> staleness_{0};
  std::atomic<bool> in_sync_{false}, bootstrapped_{false}, leads_{false};
  std::atomic<bool> flush_{false}, leave_{false}, left_{false}, delivered_{false}, settled_{false};
  std::atomic<bool> may_bootstrap_{false}, has_moved_peers_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::string refusal_;
  std::vector<std::pair<NodeId, std::string>> moved_peers_;
};

// Not thread-safe, except for names, state(), metrics(), the functions of merged() that any thread
// may call, and transport()'s Wake and counters.
class NetSegment {
 public:
  struct Next {
    bool at_once = false;     // another pass has work now
    int64_t deadline_ns = 0;  // otherwise: time of the next pass if nothing arrives before
    WaitFor what = WaitFor::kReceive;
    // Exchange::alone, before the end of the run: only frames, deadlines and requests need a pass.
    bool alone = false;
  };

  // `weights`: `count` floats in the memory of `replica_device`. They outlive the segment; solvers
  // change them concurrently. The constructor allocates 2 * `count` floats in the same memory, 3 *
  // `count` if the merge rule has state. Throws Error if a setting is invalid.
  NetSegment(const NetSegmentConfig& config, std::unique_ptr<Transport> transport, float* weights,
             int64_t count, const ReplicaDevice& replica_device = HostReplica());
  // Waits until no kernel of this segment accesses memory.
  ~NetSegment();

  // Throws Error when the replica's device has failed, and on every later call.
  Next Pass(int64_t now_ns);
  // `duty`: share of a processor that the thread which calls Pass may use. `taken`: share of the
  // solvers' time that it took. Both are published as metrics. `spacing`: Pace::spacing(). A duty
  // below 1, or a spacing, throttles the exchange (Exchange::SetThrottled).
  void SetPace(double duty, double taken, int64_t spacing);
  // Sweeps over the chunks so far (exchange/protocol/peer_metrics.h).
  double sweeps() const { return exchange_->metrics().sweeps(); }

  const std::string& name() const { return config_.name; }
  Transport& transport() { return *transport_; }
  const Transport& transport() const { return *transport_; }
  SegmentState& state() { return state_; }
  const SegmentState& state() const { return state_; }
  const SegmentMetrics& metrics() const { return *metrics_; }
  const DivergenceSampler& sampler() const { return *sampler_; }
  // Pass serves its requests. Wake the transport after MergedReader::Begin.
  MergedReader& merged() { return *merged_; }
  // The node's name in the topology; "" if there is no such node.
  std::string NameOf(NodeId node) const;
  const Exchange& exchange() const { return *exchange_; }
  const FrameFilter& filter() const { return *filter_; }
  int64_t heartbeat_ns() const { return exchange_->heartbeat_ns(); }
  int64_t peer_timeout_ns() const { return config_.exchange.peer_timeout_ns; }
  // Null if the segment carries no gossip messages.
  const Gossip* gossip() const { return gossip_.get(); }
  int64_t chunk_floats() const { return arrays_.chunk_floats; }
  // Floats of the segment's range.
  int64_t floats() const { return arrays_.size; }
  // Takes a smaller share of stale progress (exchange/protocol/damping.h).
  bool damps() const { return config_.exchange.damping; }

 private:
  Next Work(int64_t now_ns);
  void MakeExecutor(int64_t max_floats, float* weights, int64_t count);
  bool SendsDirect(const float* weights, int64_t count);
  void FinishReceived(int64_t now_ns);
  Next HoldBack(JoinVerdict verdict, int64_t now_ns);
  void FollowIncarnation();
  void MovePeers();
  bool Receive(int64_t now_ns);
  size_t TakeBatch(int64_t now_ns, size_t* received);
  bool Send(int64_t now_ns);
  uint64_t SendForeign(const OutFrame& frame);
  void Spend(uint64_t wire_bytes);
  void SendHandshakes(int64_t now_ns);
  void Admit();
  void SendGossip(int64_t now_ns);
  bool OfferGossip(int64_t now_ns);
  void Fetch(int64_t now_ns);
  void Offer();
  bool IsFull(NodeId destination) const;
  void Reclaim();
  void Publish(int64_t now_ns);
  void WatchStaleness(int64_t now_ns);
  size_t Affordable(int64_t now_ns);
  uint64_t WireBytes(NodeId to, size_t frame_bytes) const;

  const NetSegmentConfig config_;
  const ReplicaDevice replica_device_;
  const MergeRuleDescriptor& rule_;
  // base, pending and the rule's state, if any; the transport may read it if it is host memory.
  Buffer memory_;
  const std::unique_ptr<Transport> transport_;
  ReplicaArrays arrays_;
  std::unique_ptr<ChunkExecutor> executor_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<FrameFilter> filter_;
  std::unique_ptr<Gossip> gossip_;
  std::unique_ptr<LinkLog> link_log_;
  std::unique_ptr<JoinLog> join_log_;
  const size_t transmissions_of_multicast_;
  const double max_wire_bytes_;  // upper bound for one frame, all its transmissions included
  Pacer pacer_;

  std::vector<InFrame> in_;
  std::vector<std::span<const std::byte>> views_;
  std::vector<PostedFrame> held_;  // fetched from the exchange, not accepted by the transport yet
  std::vector<NodeId> full_;       // destinations without room, during one Offer
  std::vector<OutFrame> out_;      // batch for Transport::Send
  std::vector<OutHandshake> handshake_;
  uint64_t handshakes_sent_at_ = 0;    // accepted_count_ after the last handshake message
  std::vector<OutGossip> gossip_out_;  // frames in flight
  std::vector<size_t> unsent_gossip_;  // indices in gossip_out_ that the transport had no room for
  int64_t drop_gossip_ns_ = 0;         // when retries of unsent_gossip_ end
  uint64_t gossip_seen_ = 0;           // accepted_count_ after the last gossip frame
  uint64_t admitted_sessions_ = 0;     // HandshakeStats::sessions at the last Admit
  uint32_t incarnation_ = 0;        // of the handshake, as last reported to exchange_ and gossip_
  bool held_back_ = false;          // HoldBack has logged its warning
  std::vector<uint32_t> accepted_;  // ring of outbox slots, in order of acceptance
  uint64_t accepted_count_ = 0, reclaimed_ = 0;
  bool busy_ = false, paced_ = false, leaving_ = false;
  uint64_t pass_count_ = 0, full_passes_ = 0;  // as StalenessCounts has them
  bool slowed_ = false;                        // SetPace has throttled the exchange
  int64_t spacing_ = 0;                        // as SetPace was called
  uint64_t reported_progress_ = 0;             // progress last reported to exchange_
  uint64_t reported_merges_ = 0;               // other segments' merges, last reported to exchange_

  SegmentState state_;
  std::unique_ptr<DivergenceSampler> sampler_;
  std::unique_ptr<MergedReader> merged_;
  StalenessWatch staleness_{config_.staleness_remedies};
  std::unique_ptr<MetricsRegistry> own_registry_;  // null: the registry of the configuration
  std::unique_ptr<SegmentMetrics> metrics_;
  uint64_t resets_ = 0;                   // of the exchange, as of the last pass
  int64_t publish_peers_ns_ = INT64_MIN;  // next SegmentMetrics::PublishPeers
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_NET_SEGMENT_H_
