// One node's part in an exchange: keeps its weights and those of all other nodes
// close to each other by streaming positions and diffs.
//
// Pure logic: it is handed frames and the time, and hands out frames and memory
// operations. No sockets, no clock, no threads; nothing is allocated between two
// changes of the view. docs/exchange.md has the algebra and why it is safe.
//
//   Exchange exchange(config, &executor);
//   for (;;) {
//     exchange.SetProgress(iterations);
//     exchange.Receive(frames_that_came, now);
//     const size_t count = exchange.Send(room, now);
//     ... transmit room[0 ... count); Release each when its bytes have left ...
//   }
//
// Not thread-safe: one thread, while solvers write the weights from others.
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

namespace millrace {

// The largest frame that an exchange of `arrays` with this configuration sends, bytes,
// with its trailer.
size_t MaxFrameBytes(const ExchangeConfig& config, const ReplicaArrays& arrays);

class Exchange {
 public:
  // `executor` outlives this object; its weights are what the node starts from.
  // Throws Error for settings that make no sense.
  Exchange(const ExchangeConfig& config, ChunkExecutor* executor);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // `iterations` this node's solvers have done so far; never falls. Called after
  // the weights were written and before Send.
  void SetProgress(uint64_t iterations);
  // Others than this node's solvers have changed its weights: another segment, whose
  // iterations may have been told before.
  void WeightsChanged();
  // From now on diffs travel as float32, whatever the codec, and so does the progress that the
  // codec has held back: replicas come to the same bits. For the end of a run.
  void Flush();
  // Not all that there is to send can be sent: from now on this node sends those chunks first in
  // which progress is large (send_priority.h), and none again before it was answered. Not after
  // Flush, nor while a member joins.
  void SetThrottled(bool throttled);
  // Takes all frames, whatever they hold: those that are not valid are counted and
  // dropped. Frames must be 8-byte aligned; they are not needed after the call, unless
  // has_inflight() says so.
  void Receive(std::span<const std::span<const std::byte>> frames, int64_t now);
  // The executor is still at work on what Receive was given (where it starts ahead): all those
  // frames stay as they are until Finish or Send has returned, whichever comes first.
  bool has_inflight() const { return !batch_.empty(); }
  void Finish(int64_t now) { RunBatch(now); }
  // Makes up to room.size() frames. Their bytes stay until Release.
  size_t Send(std::span<PostedFrame> room, int64_t now);
  void Release(uint32_t slot) { outbox_.Release(slot); }
  // With bootstraps_when_allowed: from now on the run may begin with this node's weights.
  void AllowBootstrap() { membership_.AllowBootstrap(); }
  // Others have seen a start of this node before the one with this incarnation.
  void RaiseIncarnation(uint32_t least) { membership_.RaiseIncarnation(least); }
  // Asks the others to go on without this node, which from now on makes no
  // progress. When left() is true this node may go; if delivered() is too, all that it
  // had is with the masters of its chunks.
  void Leave();

  // May train: this node's weights are those of the run.
  bool in_sync() const;
  // The run began with this node's weights, and it has been a member since.
  bool bootstrapped() const { return bootstrapped_; }
  bool left() const { return membership_.left(); }
  // Left in order, and not because the others took this node for dead.
  bool delivered() const { return membership_.delivered(); }
  // Nothing is under way or waits for an answer, as far as this node knows.
  bool quiescent() const;
  // When Send will have something to do, if neither a frame nor progress comes
  // before; `now` or earlier if at once.
  int64_t NextEvent(int64_t now) const;

  const View& view() const { return membership_.view(); }
  uint32_t incarnation() const { return membership_.incarnation(); }
  // Iterations done by all nodes of the run together.
  uint64_t global_iterations() const { return membership_.global_clock(); }
  const ExchangeStats& stats() const { return stats_; }
  // May be read from any thread, as long as the exchange lives.
  const PeerMetrics& metrics() const { return metrics_; }
  // The others have gone on in another view, which this node waits to be let into.
  bool waits_to_join() const { return membership_.waits_to_join(); }
  // Which members do not hear each other.
  const LinkMonitor& links() const { return membership_.links(); }
  const ChunkTable& table() const { return table_; }

 private:
  void FetchRow(std::span<const std::byte> frame) const;
  void Handle(std::span<const std::byte> bytes, int64_t now);
  Drop CheckSource(const FrameHeader& header) const;
  Drop Dispatch(const FrameView& frame, int64_t now);
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

  FrameView frame_;          // that is being handled
  View followed_;            // the view that the tables are made for
  uint64_t progress_ = 0;    // as last told
  uint64_t clock_base_ = 0;  // the same when this incarnation began
  bool bootstrapped_ = false;
  bool flushed_ = false, asked_to_throttle_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_H_
