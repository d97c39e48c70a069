#include "segment/net_segment.h"

#include <glog/logging.h>

#include <algorithm>
#include <span>
#include <utility>

namespace millrace::inline segment {
namespace {

// Maximum receive or send batches in one pass, so that both directions make progress.
constexpr int kMaxBatches = 8;
// Received frames in one pass from which on the next pass follows at once: about as many have
// arrived meanwhile.
constexpr size_t kBusyFrames = 64;
constexpr size_t kSendBatch = 64;
// Marks accepted frames that do not occupy an outbox slot.
constexpr uint32_t kForeignSlot = UINT32_MAX;
// Minimum budget of a fetch from the exchange, in frames, if any is left: some replies of the
// exchange take three frames. The pacer compensates for the excess.
constexpr double kMinFrames = 4;
// Retry interval of a full transport, in case it does not report free room.
constexpr int64_t kTryAgainNs = 1'000'000;
// How long unsent gossip frames are retried. New frames replace them after that, because the store
// may have newer messages.
constexpr int64_t kKeepGossipNs = 20'000'000;
// Interval at which the metrics of single peers are published.
constexpr int64_t kPublishPeersNs = 50'000'000;

// Leader among the synced members; kNoNode if there are none.
uint16_t LeaderOf(const View& view, NodeId preferred) {
  const auto synced = [](const Member& m) { return m.role == Role::kSynced; };
  const Member* first = view.Find(preferred);
  if (first && synced(*first)) return first->node;
  const auto lowest = std::find_if(view.members.begin(), view.members.end(), synced);
  return lowest == view.members.end() ? kNoNode : lowest->node;
}

}  // namespace

std::string NetSegment::NameOf(NodeId node) const {
  const std::vector<std::string>& names = config_.filter.handshake.names;
  return node < names.size() ? names[node] : "";
}

NetSegment::Next NetSegment::Pass(int64_t now_ns) {
  try {
    Next next = Work(now_ns);
    next.at_once |= merged_->Step();
    return next;
  } catch (...) {
    merged_->Close();
    throw;
  }
}

NetSegment::Next NetSegment::Work(int64_t now_ns) {
  if (state_.has_moved_peers_.load(std::memory_order_relaxed)) MovePeers();
  if (!state_.in_sync_ && state_.members_ == 0 && !state_.leave_) {
    const JoinVerdict verdict = filter_->Verdict(now_ns);
    if (verdict != JoinVerdict::kMayJoin) return HoldBack(verdict, now_ns);
  }
  reported_progress_ = state_.progress();
  exchange_->SetProgress(reported_progress_, state_.unmerged_.load(std::memory_order_relaxed));
  const uint64_t other_merges = state_.other_merges_.load(std::memory_order_acquire);
  if (other_merges != reported_merges_) exchange_->WeightsChanged();
  reported_merges_ = other_merges;
  // Once: the exchange may have to forbid it again.
  if (state_.may_bootstrap_.load(std::memory_order_relaxed)) {
    state_.may_bootstrap_ = false;
    exchange_->AllowBootstrap();
  }
  if (state_.flush_.load(std::memory_order_relaxed)) exchange_->Flush();
  leaving_ = state_.leave_.load(std::memory_order_relaxed);
  if (leaving_) exchange_->Leave();
  exchange_->SetThrottled(slowed_ || paced_ || busy_, spacing_);
  const uint64_t wire_before = metrics_->wire_bytes();
  const bool more_in = Receive(now_ns);
  const bool more_out = Send(now_ns);
  ++pass_count_;
  if (busy_ || (paced_ && pacer_.limited())) ++full_passes_;
  Publish(now_ns);
  Next next;
  next.at_once = more_in || more_out;
  metrics_->Passed(!more_in && wire_before == metrics_->wire_bytes());
  next.deadline_ns = std::min(exchange_->NextEvent(now_ns), filter_->handshake().NextEvent());
  if (gossip_) next.deadline_ns = std::min(next.deadline_ns, gossip_->NextEvent());
  if (paced_) next.deadline_ns = std::max(next.deadline_ns, pacer_.ReadyNs(max_wire_bytes_));
  // The transport still holds slots, or had no room for frames.
  const bool waits = busy_ || !unsent_gossip_.empty() || accepted_count_ != reclaimed_;
  next.what = waits ? WaitFor::kReceiveOrSend : WaitFor::kReceive;
  if (waits) next.deadline_ns = std::max(next.deadline_ns, now_ns + kTryAgainNs);
  next.alone = exchange_->alone() && !state_.flush_.load(std::memory_order_relaxed) && !leaving_;
  return next;
}

void NetSegment::SetPace(double duty, double taken, int64_t spacing) {
  metrics_->PublishPace(duty, taken);
  slowed_ = duty < 1 || spacing > 0;
  spacing_ = spacing;
}

// A pass while the peers found so far refuse this node's settings: it neither joins them nor
// bootstraps a run. It continues the handshake, because a compatible peer may appear and because
// refusing peers report the node that they refused.
NetSegment::Next NetSegment::HoldBack(JoinVerdict verdict, int64_t now_ns) {
  if (verdict == JoinVerdict::kGiveUp) {
    std::lock_guard lock(state_.mutex_);
    state_.refusal_ = filter_->refusal();
  } else if (!std::exchange(held_back_, true)) {
    LOG(WARNING) << "Segment " << name() << ": begins no run, and gives up unless a node with the "
                 << "same settings is found within "
                 << config_.filter.handshake.give_up_ns / 1'000'000'000 << " s";
  }
  size_t received = 1;
  for (int batch = 0; batch < kMaxBatches && received > 0; ++batch) {
    TakeBatch(now_ns, &received);
    transport_->Release();
  }
  Reclaim();
  SendHandshakes(now_ns);
  metrics_->Publish(*filter_);
  metrics_->Publish(transport_->counters());
  const Handshake& handshake = filter_->handshake();
  return {.at_once = received > 0,
          .deadline_ns = std::min(handshake.NextEvent(), handshake.wait_ends() + 1)};
}

void NetSegment::MovePeers() {
  std::vector<std::pair<NodeId, std::string>> moved;
  {
    std::lock_guard lock(state_.mutex_);
    moved.swap(state_.moved_peers_);
    state_.has_moved_peers_ = false;
  }
  for (const auto& [peer, address] : moved) {
    const std::string problem = transport_->SetPeerAddress(peer, address);
    if (problem.empty()) {
      LOG(INFO) << "Segment " << name() << ": node " << NameOf(peer) << " is at " << address;
    } else {
      LOG(WARNING) << "Segment " << name() << ": " << address << " cannot be the address of node "
                   << NameOf(peer) << ": " << problem;
    }
  }
}

// Propagates an incarnation raise of the handshake to the exchange and gossip.
void NetSegment::FollowIncarnation() {
  const uint32_t incarnation = filter_->handshake().incarnation();
  if (incarnation == incarnation_) return;
  incarnation_ = incarnation;
  exchange_->RaiseIncarnation(incarnation);
  if (gossip_) gossip_->RaiseIncarnation(incarnation);
}

// Receives a batch from the transport. Returns the number of exchange frames that passed the
// filter, stored at the front of `views_` and valid until Transport::Release.
size_t NetSegment::TakeBatch(int64_t now_ns, size_t* received) {
  *received = transport_->Receive(in_);
  size_t entered = 0;
  bool received_any = false;
  for (size_t i = 0; i < *received; ++i) {
    const auto frame = filter_->Enter(in_[i], now_ns);
    if (!frame) continue;
    received_any = true;
    if (gossip_ && IsGossip(*frame)) {
      Admit();  // the frame may belong to a session that was just established
      gossip_->Receive(in_[i].from, *frame, now_ns);
    } else {
      views_[entered++] = *frame;
    }
  }
  FollowIncarnation();
  if (received_any) state_.last_frame_ns_.store(now_ns, std::memory_order_relaxed);
  return entered;
}

// Returns whether more frames may be available.
bool NetSegment::Receive(int64_t now_ns) {
  size_t all = 0;
  for (int batch = 0; batch < kMaxBatches; ++batch) {
    size_t received;
    const size_t entered = TakeBatch(now_ns, &received);
    // Also without frames, to report the time.
    if (entered > 0 || batch == 0) exchange_->Receive({views_.data(), entered}, now_ns);
    // While kernels read received frames, FinishReceived releases all buffers.
    if (!exchange_->has_inflight()) transport_->Release();
    all += received;
    // A batch that is not full may only mean that the transport has no more buffers.
    if (received == 0) return all >= kBusyFrames;
  }
  return true;
}

void NetSegment::FinishReceived(int64_t now_ns) {
  if (!exchange_->has_inflight()) return;
  exchange_->Finish(now_ns);
  transport_->Release();
}

// Returns whether more frames could be sent now.
bool NetSegment::Send(int64_t now_ns) {
  Reclaim();
  busy_ = paced_ = false;
  SendHandshakes(now_ns);
  if (gossip_) SendGossip(now_ns);
  Offer();
  FinishReceived(now_ns);
  for (int batch = 0; batch < kMaxBatches && !busy_; ++batch) {
    const size_t before = held_.size();
    Fetch(now_ns);
    const size_t fetched = held_.size() - before;
    Offer();
    Reclaim();
    if (fetched < kSendBatch) return false;
  }
  return !busy_;
}

// Offers a handshake or gossip frame to the transport. Returns its bytes on the wire; 0 if the
// transport has no room.
uint64_t NetSegment::SendForeign(const OutFrame& frame) {
  if (transport_->Send({&frame, 1}).accepted == 0) return 0;
  accepted_[accepted_count_++ % accepted_.size()] = kForeignSlot;
  return WireBytes(frame.to, frame.bytes());
}

void NetSegment::Spend(uint64_t wire_bytes) {
  pacer_.Spend(static_cast<double>(wire_bytes));
  metrics_->AddWireBytes(wire_bytes);
}

// Sends due handshake messages. Messages that the transport has no room for are dropped: the
// handshake makes new ones when they are due. Their memory is reused once all of them have left.
void NetSegment::SendHandshakes(int64_t now_ns) {
  if (reclaimed_ < handshakes_sent_at_) return;
  Handshake& handshake = filter_->handshake();
  for (size_t count; (count = handshake.Send(handshake_, now_ns)) > 0;) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      bytes += SendForeign({handshake_[i].to, handshake_[i].bytes, {}});
    }
    handshakes_sent_at_ = accepted_count_;
    Spend(bytes);
    Reclaim();
    if (reclaimed_ < handshakes_sent_at_) return;
  }
}

// Reports new sessions of peers to gossip.
void NetSegment::Admit() {
  const Handshake& handshake = filter_->handshake();
  if (handshake.stats().sessions == admitted_sessions_) return;
  admitted_sessions_ = handshake.stats().sessions;
  for (NodeId node : transport_->info().peers) {
    const auto peer = handshake.Peer(node);
    if (peer) gossip_->Admit(node, peer->incarnation);
  }
}

// Sends gossip frames within the rate limit. Frames without room are retried for kKeepGossipNs,
// ahead of exchange frames: on a full link the exchange takes all room that becomes free.
void NetSegment::SendGossip(int64_t now_ns) {
  Admit();
  if (!OfferGossip(now_ns)) return;
  while (reclaimed_ >= gossip_seen_) {
    const size_t room = std::min(gossip_out_.size(), Affordable(now_ns));
    const size_t count = gossip_->Send({gossip_out_.data(), room}, now_ns);
    if (count == 0) return;
    for (size_t i = 0; i < count; ++i) unsent_gossip_.push_back(i);
    drop_gossip_ns_ = now_ns + kKeepGossipNs;
    if (!OfferGossip(now_ns)) return;
  }
}

// Retries unsent gossip frames. Returns whether none are left.
bool NetSegment::OfferGossip(int64_t now_ns) {
  if (unsent_gossip_.empty()) return true;
  uint64_t bytes = 0;
  size_t kept = 0;
  for (const size_t i : unsent_gossip_) {
    PostedFrame frame{gossip_out_[i].to, gossip_out_[i].head(), gossip_out_[i].part(),
                      gossip_out_[i].room(), kForeignSlot};
    filter_->Sign(&frame);
    const uint64_t sent = SendForeign({frame.destination, frame.head, frame.payload});
    bytes += sent;
    if (sent == 0) unsent_gossip_[kept++] = i;
  }
  unsent_gossip_.resize(kept);
  if (now_ns >= drop_gossip_ns_) {
    for (const size_t i : unsent_gossip_) gossip_->NotSent(gossip_out_[i].to, now_ns);
    unsent_gossip_.clear();
  }
  gossip_seen_ = accepted_count_;
  Spend(bytes);
  Reclaim();
  return unsent_gossip_.empty();
}

// Fetches and signs as many frames of the exchange as the pacer allows.
void NetSegment::Fetch(int64_t now_ns) {
  const size_t begin = held_.size(), affordable = Affordable(now_ns);
  const size_t room = std::min({kSendBatch, config_.exchange.slots - begin, affordable});
  held_.resize(begin + room);
  const size_t count = exchange_->Send({held_.data() + begin, room}, now_ns);
  held_.resize(begin + count);
  paced_ = count == affordable;
  uint64_t bytes = 0;
  for (size_t i = begin; i < held_.size(); ++i) {
    filter_->Sign(&held_[i]);
    bytes += WireBytes(held_[i].destination, held_[i].head.size() + held_[i].payload.size());
  }
  Spend(bytes);
}

size_t NetSegment::Affordable(int64_t now_ns) {
  if (!pacer_.limited()) return kSendBatch;
  const double frames = pacer_.Available(now_ns) / max_wire_bytes_;
  if (frames < 1) return 0;
  return static_cast<size_t>(std::clamp(frames, kMinFrames, 1e6));
}

uint64_t NetSegment::WireBytes(NodeId to, size_t frame_bytes) const {
  const size_t one = frame_bytes + transport_->info().overhead_bytes;
  return to == kAllNodes ? one * transmissions_of_multicast_ : one;
}

// Offers the held frames to the transport. A transport without room for one frame may have room for
// later frames to other destinations; frames to a full destination are skipped.
void NetSegment::Offer() {
  full_.clear();
  size_t kept = 0;
  for (size_t begin = 0; begin < held_.size();) {
    out_.clear();
    for (size_t i = begin; i < held_.size() && !IsFull(held_[i].destination); ++i) {
      out_.push_back({held_[i].destination, held_[i].head, held_[i].payload});
    }
    const SendResult sent = out_.empty() ? SendResult{} : transport_->Send(out_);
    for (size_t i = begin; i < begin + sent.accepted; ++i) {
      accepted_[accepted_count_++ % accepted_.size()] = held_[i].slot;
    }
    begin += sent.accepted;
    if (begin == held_.size()) break;
    const PostedFrame& frame = held_[begin++];
    if (!out_.empty() && sent.status == SendStatus::kAccepted) {
      --begin;  // its destination is full: the next iteration keeps it
    } else if (out_.empty() || sent.status == SendStatus::kBusy) {
      if (!out_.empty()) full_.push_back(frame.destination);
      held_[kept++] = frame;
    } else {
      exchange_->Release(frame.slot);  // the transport can never send it, and counts it
    }
  }
  busy_ = kept > 0;
  held_.resize(kept);
}

void NetSegment::WatchStaleness(int64_t now_ns) {
  if (!exchange_->in_sync()) return;
  const ExchangeStats& stats = exchange_->stats();
  const bool warns = staleness_.Update(now_ns, {.iterations = exchange_->global_iterations(),
                                                .sweeps = exchange_->metrics().sweeps(),
                                                .diffs = stats.diffs_taken,
                                                .damped = stats.diffs_damped,
                                                .paced = slowed_,
                                                .passes = pass_count_,
                                                .full = full_passes_});
  metrics_->PublishStaleness(staleness_.iterations());
  state_.staleness_ = static_cast<float>(staleness_.iterations());
  if (warns) LOG(WARNING) << "Segment " << name() << ": " << staleness_.Warning();
}

bool NetSegment::IsFull(NodeId destination) const {
  return std::find(full_.begin(), full_.end(), destination) != full_.end();
}

void NetSegment::Reclaim() {
  const uint64_t done = transport_->Reclaim();
  for (; reclaimed_ < done; ++reclaimed_) {
    const uint32_t slot = accepted_[reclaimed_ % accepted_.size()];
    if (slot != kForeignSlot) exchange_->Release(slot);
  }
}

void NetSegment::Publish(int64_t now_ns) {
  const ExchangeStats& stats = exchange_->stats();
  metrics_->Publish(stats);
  const bool reset = stats.resets != std::exchange(resets_, stats.resets);
  if (reset && exchange_->view().id) {  // without a view, it left one that lacks weights
    LOG(WARNING) << "Segment " << name()
                 << ": this node gives up its weights for those of the run: "
                 << "the other nodes went on without it, and its progress that they have not "
                 << "received is lost";
  }
  metrics_->Publish(*filter_);
  metrics_->Publish(transport_->counters());
  if (now_ns >= publish_peers_ns_) {
    publish_peers_ns_ = now_ns + kPublishPeersNs;
    metrics_->PublishPeers();
  }
  for (const std::string& line : link_log_->Update(exchange_->links(), now_ns)) {
    LOG(WARNING) << line;
  }
  for (const std::string& line : join_log_->Update(exchange_->membership(), now_ns)) {
    LOG(WARNING) << line;
  }
  if (sampler_->Sample(now_ns)) metrics_->Publish(sampler_->all(), sampler_->peers());
  WatchStaleness(now_ns);
  const View& view = exchange_->view();
  if (gossip_) {
    metrics_->PublishGossip(gossip_->stats().drops);
    const uint64_t seen = gossip_->seen();
    const bool all = seen != state_.gossip_seen_ &&
                     std::all_of(view.members.begin(), view.members.end(), [&](const Member& m) {
                       return m.node == config_.exchange.node || gossip_->Has(m.node, seen);
                     });
    if (all) state_.gossip_seen_ = seen;
  }
  const bool in_sync = exchange_->in_sync();
  state_.merges_.store(exchange_->stats().merges(), std::memory_order_release);
  const uint64_t global = exchange_->global_iterations();
  state_.global_.store(global, std::memory_order_release);
  state_.others_.store(global - std::min(global, reported_progress_), std::memory_order_release);
  state_.members_.store(static_cast<uint32_t>(view.members.size()), std::memory_order_relaxed);
  state_.bootstrapped_ = exchange_->bootstrapped();
  state_.leads_ = in_sync && LeaderOf(view, config_.leader) == config_.exchange.node;
  state_.in_sync_ = in_sync;
  metrics_->PublishMembership(state_.members_, in_sync, state_.leads_);
  // Failed or busy members may delay the view without this node, but it has sent everything.
  state_.settled_ = exchange_->quiescent();
  state_.delivered_ = exchange_->delivered() || (leaving_ && state_.settled_);
  state_.left_ = exchange_->left();
}

}  // namespace millrace::inline segment
