// One node's part in an exchange: keeps its weights close to those of all other nodes by streaming
// positions and diffs.
//
// Pure logic: takes frames and the time, and produces frames and memory operations. Uses no
// sockets, clocks or threads, and allocates nothing between two view changes. docs/exchange.md
// describes the algebra and why it is safe.
//
//   Exchange exchange(config, &executor);
//   for (;;) {
//     exchange.SetProgress(iterations);
//     exchange.Receive(received_frames, now);
//     const size_t count = exchange.Send(room, now);
//     ... transmit room[0 ... count); call Release(slot) for each when its bytes have left ...
//   }
//
// Not thread-safe: one thread calls it while solvers write the weights from other threads.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_H_
#define MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/exchange_config.h"
#include "exchange/protocol/exchange_context.h"
#include "exchange/protocol/frame.h"
#include "exchange/protocol/master.h"
#include "exchange/protocol/membership.h"
#include "exchange/protocol/outbox.h"
#include "exchange/protocol/peer_metrics.h"
#include "exchange/protocol/reply_queue.h"
#include "exchange/protocol/takeover.h"
#include "exchange/protocol/worker.h"

namespace millrace::inline exchange {

// Size of the largest frame that an exchange of `arrays` sends with this configuration, in bytes,
// including the trailer.
size_t MaxFrameBytes(const ExchangeConfig& config, const ReplicaArrays& arrays);

class Exchange {
 public:
  // `executor` outlives this object; the node starts with its weights. Throws Error for invalid
  // settings.
  Exchange(const ExchangeConfig& config, ChunkExecutor* executor);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Reports the total iterations of this node's solvers, which never decrease. Call it after the
  // weights were written and before Send. `unmerged`: the latest of these iterations whose progress
  // is not in the weights yet, because solvers train on weights of their own.
  void SetProgress(uint64_t iterations, uint64_t unmerged = 0);
  // Reports that a writer other than this node's solvers changed the weights: another segment. Its
  // iterations may have been reported earlier, so SetProgress alone would miss the change.
  void WeightsChanged();
  // For the end of a run: sends all further diffs as float32, whatever the codec, including
  // progress that the codec has held back, and drops what the merge rule leaves at its fixed point.
  // All replicas then converge to the same bits.
  void Flush();
  // Reports whether pace or transport hold frames back. If so, the node sends chunks with large
  // progress first (send_priority.h), and a chunk again only after its last frame was answered or
  // may be lost. With a `spacing`, so many iterations of the cluster pass between two positions of
  // a chunk with new content, at least, and chunks take equal turns. No effect after Flush, or
  // while a member of the view is not synced.
  void SetThrottled(bool throttled, int64_t spacing = 0);
  // Handles all frames, whatever their content: invalid ones are counted and dropped. Frames must
  // be 8-byte aligned. They must stay valid until the call returns; longer if has_inflight().
  void Receive(std::span<const std::span<const std::byte>> frames, int64_t now);
  // Whether an asynchronous executor still works on received frames. All frames passed to Receive
  // must then stay unchanged until Finish or Send has returned, whichever comes first.
  bool has_inflight() const { return !batch_.empty(); }
  void Finish(int64_t now) { RunBatch(now); }
  // Makes up to room.size() frames and returns their number. Their bytes stay valid until Release.
  size_t Send(std::span<PostedFrame> room, int64_t now);
  void Release(uint32_t slot) { outbox_.Release(slot); }
  // With bootstraps_when_allowed: from now on this node may form the first view with its weights.
  void AllowBootstrap() { membership_.AllowBootstrap(); }
  // Sets a lower bound on this node's incarnation, because peers know an earlier start of the node.
  // It applies to the next incarnation, or to the current one while the node is in no view.
  void RaiseIncarnation(uint32_t least) { membership_.RaiseIncarnation(least); }
  // Asks the other members to continue without this node, which makes no progress from now on. The
  // node may stop when left() is true; if delivered() is true too, the masters hold all its
  // progress.
  void Leave();

  // Whether this node may train: its weights are those of the run.
  bool in_sync() const;
  // Whether the run began with this node's weights, and the node has been a member ever since.
  bool bootstrapped() const { return bootstrapped_; }
  bool left() const { return membership_.left(); }
  // Left in order, not because the other members suspected this node.
  bool delivered() const { return membership_.delivered(); }
  // Whether this node is in sync and no frame, diff, reply or takeover is outstanding, as far as it
  // knows.
  bool quiescent() const;
  // Whether this node is the only member and owes no answer: its progress is sent to nobody.
  bool alone() const;
  // Time at which Send next has work if neither a frame nor progress arrives before; `now` or
  // earlier if immediately.
  int64_t NextEvent(int64_t now) const;

  const View& view() const { return membership_.view(); }
  bool merges_own() const { return config_.merges_own; }  // ExchangeConfig::merges_own
  // Minimum interval between two heartbeats of this node, in ns: ExchangeConfig::heartbeat_ns, or
  // more where heartbeats to all members would take more than a twentieth of the node's link, but
  // then at most an eighth of the peer timeout.
  int64_t heartbeat_ns() const;
  uint32_t incarnation() const { return membership_.incarnation(); }
  // Iterations of all nodes of the run together.
  uint64_t global_iterations() const { return membership_.global_clock(); }
  const ExchangeStats& stats() const { return stats_; }
  // Readable from any thread during the lifetime of the exchange.
  const PeerMetrics& metrics() const { return metrics_; }
  // Whether other nodes continue in another view, and this node waits to join it.
  bool waits_to_join() const { return membership_.waits_to_join(); }
  // Which members do not receive frames from each other.
  const LinkMonitor& links() const { return membership_.links(); }
  const Membership& membership() const { return membership_; }
  const ChunkTable& table() const { return table_; }

 private:
  void FetchRow(std::span<const std::byte> frame) const;
  void Handle(std::span<const std::byte> bytes, int64_t now);
  DropReason CheckSource(const FrameHeader& header) const;
  DropReason Dispatch(const FrameView& frame, int64_t now);
  void MergeDeferred(int64_t now);
  void FollowThrottle();
  void StartBatch();
  void RunBatch(int64_t now);
  void FollowView();
  void SendMembership(int64_t now, size_t budget);
  uint32_t PaddingOf(uint32_t payload_bytes, int64_t now);
  void ReportToMembership();

  const ExchangeConfig config_;
  ChunkExecutor& executor_;
  Membership membership_;
  ChunkTable table_;
  Outbox outbox_;
  OpBatch batch_;
  ExchangeStats stats_;
  PeerMetrics metrics_;
  ExchangeContext context_;
  Worker worker_;
  Master master_;
  Takeover takeover_;
  ReplyQueue replies_;

  FrameView frame_;          // the frame being handled
  View followed_;            // the view that the tables correspond to
  uint64_t progress_ = 0;    // iterations as of the last SetProgress
  uint64_t clock_base_ = 0;  // progress_ at the start of this incarnation
  bool bootstrapped_ = false;
  bool asked_to_throttle_ = false;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_H_
