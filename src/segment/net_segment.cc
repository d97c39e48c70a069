#include "segment/net_segment.h"

#include <glog/logging.h>

#include <algorithm>
#include <span>
#include <utility>

namespace millrace {
namespace {

// Batches of one pass, so that sending gets its turn.
constexpr int kMostBatches = 8;
// Where so many came in a pass, as many come meanwhile.
constexpr size_t kBusyFrames = 64;
constexpr size_t kSendBatch = 64;
// Of frames that are not the exchange's.
constexpr uint32_t kForeignSlot = UINT32_MAX;
// What is offered to the exchange if anything is: some of its answers come in threes. The
// pace makes up for it.
constexpr double kLeastFrames = 4;
// A transport without room says when it has some; this is in case it says nothing.
constexpr int64_t kTryAgainNs = 1'000'000;
// After that they are made anew: they may say more by then.
constexpr int64_t kKeepNewsNs = 20'000'000;

// Of the members that are in sync; kNoNode without one.
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
  if (!state_.in_sync_ && state_.members_ == 0 && !state_.leave_) {
    const JoinVerdict verdict = filter_->Verdict(now_ns);
    if (verdict != JoinVerdict::kMayJoin) return HoldBack(verdict, now_ns);
  }
  told_ = state_.progress();
  exchange_->SetProgress(told_);
  const uint64_t other_merges = state_.other_merges_.load(std::memory_order_acquire);
  if (other_merges != told_merges_) exchange_->WeightsChanged();
  told_merges_ = other_merges;
  if (state_.may_bootstrap_.load(std::memory_order_relaxed)) exchange_->AllowBootstrap();
  if (state_.flush_.load(std::memory_order_relaxed)) exchange_->Flush();
  leaving_ = state_.leave_.load(std::memory_order_relaxed);
  if (leaving_) exchange_->Leave();
  exchange_->SetThrottled(slowed_ || (has_pace_ && (paced_ || busy_)));
  const uint64_t wire_before = metrics_->wire_bytes();
  const bool more_in = Receive(now_ns);
  const bool more_out = Send(now_ns);
  Publish(now_ns);
  Next next;
  next.at_once = more_in || more_out;
  metrics_->Passed(!more_in && wire_before == metrics_->wire_bytes());
  next.deadline_ns = std::min(exchange_->NextEvent(now_ns), filter_->handshake().NextEvent());
  if (gossip_) next.deadline_ns = std::min(next.deadline_ns, gossip_->NextEvent());
  if (paced_) next.deadline_ns = std::max(next.deadline_ns, pacer_.ReadyNs(most_wire_bytes_));
  // Slots that the transport still holds, or frames that it had no room for.
  const bool waits = busy_ || !unsent_gossip_.empty() || accepted_count_ != reclaimed_;
  next.what = waits ? WaitFor::kReceiveOrSend : WaitFor::kReceive;
  if (waits) next.deadline_ns = std::max(next.deadline_ns, now_ns + kTryAgainNs);
  return next;
}

void NetSegment::SetPace(double duty, double taken) {
  metrics_->SetPace(duty, taken);
  slowed_ = duty < 1;
  has_pace_ = true;
}

double NetSegment::MeanExchanges() const {
  const ExchangeStats& stats = exchange_->stats();
  const uint64_t sent = stats.sent[static_cast<size_t>(FrameType::kPosition)];
  return static_cast<double>(sent + stats.positions_taken) / exchange_->table().size();
}

// Differs from those that are there, as far as it has heard: neither joins them nor begins a
// run of its own. It goes on to complete the handshake, so that it may meet one that is set up
// alike, and others can say whom they refused.
NetSegment::Next NetSegment::HoldBack(JoinVerdict verdict, int64_t now_ns) {
  if (verdict == JoinVerdict::kGiveUp) {
    std::lock_guard lock(state_.mutex_);
    state_.refusal_ = filter_->refusal();
  } else if (!std::exchange(held_back_, true)) {
    LOG(WARNING) << "Segment " << name() << ": begins no run, and gives up unless a node that is "
                 << "set up alike is met within "
                 << config_.filter.handshake.patience_ns / 1'000'000'000 << " s";
  }
  size_t received = 1;
  for (int batch = 0; batch < kMostBatches && received > 0; ++batch) {
    TakeBatch(now_ns, &received);
    transport_->Release();
  }
  Reclaim();
  Introduce(now_ns);
  metrics_->Publish(*filter_);
  const Handshake& handshake = filter_->handshake();
  return {.at_once = received > 0,
          .deadline_ns = std::min(handshake.NextEvent(), handshake.wait_ends() + 1)};
}

// What this node says from now on is of a later incarnation than it was started with.
void NetSegment::FollowIncarnation() {
  const uint32_t incarnation = filter_->handshake().incarnation();
  if (incarnation == incarnation_) return;
  incarnation_ = incarnation;
  exchange_->RaiseIncarnation(incarnation);
  if (gossip_) gossip_->RaiseIncarnation(incarnation);
}

// Frames from the transport: returns how many got in, as the first of `views_`. They are
// there until the transport's Release.
size_t NetSegment::TakeBatch(int64_t now_ns, size_t* received) {
  *received = transport_->Receive(in_);
  size_t entered = 0;
  bool heard = false;
  for (size_t i = 0; i < *received; ++i) {
    const auto frame = filter_->Enter(in_[i], now_ns);
    if (!frame) continue;
    heard = true;
    if (gossip_ && IsGossip(*frame)) {
      Admit();  // it may be of a life that has just completed the handshake
      gossip_->Receive(in_[i].from, *frame, now_ns);
    } else {
      views_[entered++] = *frame;
    }
  }
  FollowIncarnation();
  if (heard) state_.heard_ns_.store(now_ns, std::memory_order_relaxed);
  return entered;
}

// Whether there may be more.
bool NetSegment::Receive(int64_t now_ns) {
  size_t all = 0;
  for (int batch = 0; batch < kMostBatches; ++batch) {
    size_t received;
    const size_t entered = TakeBatch(now_ns, &received);
    // Also without frames: time has passed.
    if (entered > 0 || batch == 0) exchange_->Receive({views_.data(), entered}, now_ns);
    // What kernels read stays lent, and all else with it, until FinishReceived.
    if (!exchange_->has_inflight()) transport_->Release();
    all += received;
    // Fewer than there is room for may be all that the transport has buffers for.
    if (received == 0) return all >= kBusyFrames;
  }
  return true;
}

void NetSegment::FinishReceived(int64_t now_ns) {
  if (!exchange_->has_inflight()) return;
  exchange_->Finish(now_ns);
  transport_->Release();
}

// Whether there is more that would be let through now.
bool NetSegment::Send(int64_t now_ns) {
  Reclaim();
  busy_ = paced_ = false;
  Introduce(now_ns);
  if (gossip_) SendGossip(now_ns);
  Offer();
  FinishReceived(now_ns);
  for (int batch = 0; batch < kMostBatches && !busy_; ++batch) {
    const size_t before = held_.size();
    Fetch(now_ns);
    const size_t fetched = held_.size() - before;
    Offer();
    Reclaim();
    if (fetched < kSendBatch) return false;
  }
  return !busy_;
}

// Offers a frame that is not of the exchange. The bytes that it takes on the wire; 0 if the
// transport has no room for it.
uint64_t NetSegment::SendForeign(const OutFrame& frame) {
  if (transport_->Send({&frame, 1}).accepted == 0) return 0;
  accepted_[accepted_count_++ % accepted_.size()] = kForeignSlot;
  return WireBytes(frame.to, frame.bytes());
}

void NetSegment::Spend(uint64_t wire_bytes) {
  pacer_.Spend(static_cast<double>(wire_bytes));
  metrics_->AddWireBytes(wire_bytes);
}

// Handshake messages do not wait: what the transport has no room for is thrown away, and made
// anew when it is due. Their memory is used again once all of them have left.
void NetSegment::Introduce(int64_t now_ns) {
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

// Tells the gossip messages of peers that live anew.
void NetSegment::Admit() {
  const Handshake& handshake = filter_->handshake();
  if (handshake.stats().sessions == admitted_lives_) return;
  admitted_lives_ = handshake.stats().sessions;
  for (NodeId node : transport_->info().peers) {
    const auto peer = handshake.Peer(node);
    if (peer) gossip_->Admit(node, peer->incarnation);
  }
}

// As Introduce, but within the pace; and what there is no room for is offered again for a while,
// before frames of the exchange: on a full link these take whatever becomes free.
void NetSegment::SendGossip(int64_t now_ns) {
  Admit();
  if (!OfferNews(now_ns)) return;
  while (reclaimed_ >= gossip_seen_) {
    const size_t room = std::min(gossip_out_.size(), Affordable(now_ns));
    const size_t count = gossip_->Send({gossip_out_.data(), room}, now_ns);
    if (count == 0) return;
    for (size_t i = 0; i < count; ++i) unsent_gossip_.push_back(i);
    drop_gossip_ns_ = now_ns + kKeepNewsNs;
    if (!OfferNews(now_ns)) return;
  }
}

// Whether none is left to be offered again.
bool NetSegment::OfferNews(int64_t now_ns) {
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

// Frames from the exchange, as many as the pace lets through.
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
  const double frames = pacer_.Available(now_ns) / most_wire_bytes_;
  if (frames < 1) return 0;
  return static_cast<size_t>(std::clamp(frames, kLeastFrames, 1e6));
}

uint64_t NetSegment::WireBytes(NodeId to, size_t frame_bytes) const {
  const size_t one = frame_bytes + transport_->info().overhead_bytes;
  return to == kAllNodes ? one * transmissions_of_multicast_ : one;
}

// Offers what is held to the transport. One that has no room for a frame may have it
// for those behind, which go to others; those to the same destination are not tried.
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
      --begin;  // the one behind is to a full destination: it is next
    } else if (out_.empty() || sent.status == SendStatus::kBusy) {
      if (!out_.empty()) full_.push_back(frame.destination);
      held_[kept++] = frame;
    } else {
      exchange_->Release(frame.slot);  // it can never be sent; the transport counts it
    }
  }
  busy_ = kept > 0;
  held_.resize(kept);
}

void NetSegment::WatchStaleness(int64_t now_ns) {
  const ExchangeStats& stats = exchange_->stats();
  const bool warns = staleness_.Update(now_ns, {.iterations = exchange_->global_iterations(),
                                                .sweeps = exchange_->metrics().sweeps(),
                                                .diffs = stats.diffs_taken,
                                                .damped = stats.diffs_damped});
  metrics_->PublishStaleness(staleness_.iterations());
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
  metrics_->Publish(exchange_->stats());
  metrics_->Publish(*filter_);
  for (const std::string& line : link_log_->Update(exchange_->links(), now_ns)) {
    LOG(WARNING) << line;
  }
  if (sampler_->Sample(now_ns)) metrics_->Publish(sampler_->all(), sampler_->peers());
  WatchStaleness(now_ns);
  const View& view = exchange_->view();
  if (gossip_) {
    metrics_->Publish(gossip_->stats().drops);
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
  state_.others_.store(global - std::min(global, told_), std::memory_order_release);
  state_.members_.store(static_cast<uint32_t>(view.members.size()), std::memory_order_relaxed);
  state_.bootstrapped_ = exchange_->bootstrapped();
  state_.leads_ = in_sync && LeaderOf(view, config_.leader) == config_.exchange.node;
  state_.in_sync_ = in_sync;
  // Members that are dead or busy may keep it from being let go; it has sent all the same.
  state_.delivered_ = exchange_->delivered() || (leaving_ && exchange_->quiescent());
  state_.left_ = exchange_->left();
}

}  // namespace millrace
