#include "cluster/cluster.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace millrace::inline cluster {
namespace {

// Heartbeat intervals without any frame after which no peer waits for a reply.
constexpr int64_t kIdleHeartbeats = 4;
// Interval, in ms, at which a wait for merged weights polls `stop`.
constexpr int kStopMs = 10;

template <typename Predicate>
bool All(const std::vector<ClusterSegment>& segments, Predicate predicate) {
  return std::all_of(segments.begin(), segments.end(), [&](const ClusterSegment& segment) {
    return predicate(segment.net->state());
  });
}

}  // namespace

Cluster::Cluster(std::vector<ClusterSegment> segments, int64_t start, IterationClock* iterations,
                 const Clock* clock, ErrorSink* sink, std::shared_ptr<GossipStore> gossip,
                 std::shared_ptr<MetricsRegistry> registry)
    : registry_(std::move(registry)),
      segments_(std::move(segments)),
      start_(start),
      iterations_(*iterations),
      clock_(*clock),
      gossip_(std::move(gossip)),
      others_(segments_.size()),
      merges_(segments_.size()) {
  CHECK(!segments_.empty());
  for (ClusterSegment& segment : segments_) {
    threads_.push_back(std::make_unique<SegmentThread>(segment.net.get(), segment.thread, clock,
                                                       sink, [this] { Count(); }));
  }
}

Cluster::~Cluster() { threads_.clear(); }

void Cluster::ThrowIfRefused() const {
  for (const ClusterSegment& segment : segments_) {
    const std::string refusal = segment.net->state().refusal();
    if (!refusal.empty()) throw Error("segment ", segment.net->name(), ": ", refusal);
  }
}

bool Cluster::begun() {
  std::lock_guard lock(mutex_);
  return begun_;
}

bool Cluster::in_sync() const {
  return All(segments_, [](const SegmentState& state) { return state.in_sync(); });
}

bool Cluster::bootstrapped() const {
  return All(segments_, [](const SegmentState& state) { return state.bootstrapped(); });
}

bool Cluster::damps() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const ClusterSegment& segment) { return segment.net->damps(); });
}

bool Cluster::alone() const {
  return All(segments_, [](const SegmentState& state) { return state.members() == 1; });
}

bool Cluster::is_leader() const {
  return std::all_of(segments_.begin(), segments_.end(), [](const ClusterSegment& segment) {
    return !segment.counts || segment.net->state().is_leader();
  });
}

bool Cluster::idle() const {
  const int64_t now = clock_.NowNs();
  return std::all_of(segments_.begin(), segments_.end(), [now](const ClusterSegment& segment) {
    return now - segment.net->state().last_frame_ns() >=
           kIdleHeartbeats * segment.net->heartbeat_ns();
  });
}

bool Cluster::has_dependents() const {
  return std::any_of(segments_.begin(), segments_.end(), [this](const ClusterSegment& segment) {
    return segment.net->state().members() > 1 && (segment.above || is_leader());
  });
}

void Cluster::AllowBootstrap() {
  for (ClusterSegment& segment : segments_) {
    segment.net->state().AllowBootstrap();
    segment.net->transport().Wake();
  }
}

void Cluster::SetPeerAddress(size_t segment, NodeId peer, const std::string& address) {
  segments_[segment].net->state().SetPeerAddress(peer, address);
  segments_[segment].net->transport().Wake();
}

void Cluster::Flush() {
  for (ClusterSegment& segment : segments_) segment.net->state().RequestFlush();
}

void Cluster::Leave() {
  for (ClusterSegment& segment : segments_) segment.net->state().RequestLeave();
}

bool Cluster::left() const {
  return All(segments_, [](const SegmentState& state) { return state.left(); });
}

bool Cluster::delivered() const {
  return All(segments_, [](const SegmentState& state) {
    // A node that is alone has no one to deliver to.
    return state.delivered() || state.members() == 1;
  });
}

bool Cluster::settled() const {
  return All(segments_,
             [](const SegmentState& state) { return state.settled() || state.members() == 1; });
}

uint64_t Cluster::non_finite() const {
  uint64_t frames = 0;
  for (const ClusterSegment& segment : segments_) {
    frames += segment.net->metrics().dropped(DropComponent::kExchange, DropReason::kNonFinite);
  }
  return frames;
}

void Cluster::Publish(GossipKey key, std::span<const std::byte> bytes) {
  CHECK(gossip_ != nullptr);
  gossip_->Publish(key, bytes);
}

std::vector<GossipMessage> Cluster::Read(GossipKey key) const {
  CHECK(gossip_ != nullptr);
  return gossip_->Read(key);
}

bool Cluster::all_acked() const {
  CHECK(gossip_ != nullptr);
  const uint64_t changes = gossip_->changes();
  return std::all_of(segments_.begin(), segments_.end(), [&](const ClusterSegment& segment) {
    return segment.net->gossip() == nullptr || segment.net->state().gossip_acked() >= changes;
  });
}

NodeId Cluster::node() const {
  CHECK(gossip_ != nullptr);
  return gossip_->node();
}

void Cluster::Count() {
  std::lock_guard lock(mutex_);
  AllowBootstrapBelow();
  uint64_t beyond = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].counts) continue;
    // The count falls if a member dies before it has reported all of its iterations. Keeping the
    // maximum lets later iterations make up for that.
    others_[i] = std::max(others_[i], segments_[i].net->state().others());
    beyond += others_[i];
  }
  if (!begun_ && !Begin(beyond)) return;
  const uint64_t own = own_start_ + static_cast<uint64_t>(iterations_.own());
  const auto unmerged = static_cast<uint64_t>(iterations_.unmerged());
  for (size_t i = 0; i < segments_.size(); ++i) {
    segments_[i].net->state().SetProgress(own + beyond - others_[i], unmerged);
  }
  ForwardMerges();
  if (beyond <= counted_) return;
  const auto more = static_cast<int64_t>(beyond - counted_);
  counted_ = beyond;
  const int64_t first = iterations_.TakeRemote(more);
  if (!unreported_.empty() && unreported_.back().end == first) {
    unreported_.back().end += more;
  } else {
    unreported_.push_back({first, first + more});
  }
}

// Nodes on the segments for which this node is the gateway start with its weights. These must first
// be in sync on the segments towards node 0: otherwise progress made below would be overwritten.
void Cluster::AllowBootstrapBelow() {
  const bool has_weights =
      std::all_of(segments_.begin(), segments_.end(), [](const ClusterSegment& segment) {
        return segment.above || segment.net->state().in_sync();
      });
  if (!has_weights) return;
  for (ClusterSegment& segment : segments_) {
    if (segment.above) segment.net->state().AllowBootstrap();
  }
}

// Merges of one segment must travel on through the other segments that carry the same weights, even
// if their iterations were counted long before. Only overlapping segments count: two segments with
// disjoint ranges between the same nodes would otherwise trigger each other endlessly.
void Cluster::ForwardMerges() {
  for (size_t i = 0; i < segments_.size(); ++i) merges_[i] = segments_[i].net->state().merges();
  for (size_t i = 0; i < segments_.size(); ++i) {
    uint64_t others = outside_merges_;
    for (size_t k = 0; k < segments_.size(); ++k) {
      if (k != i && Overlap(segments_[i].range(), segments_[k].range())) others += merges_[k];
    }
    segments_[i].net->state().SetOtherMerges(others);
  }
}

uint64_t Cluster::merges() const {
  uint64_t sum = 0;
  for (const ClusterSegment& segment : segments_) sum += segment.net->state().merges();
  return sum;
}

// Waits until this node is in sync, because only then it is known whether the run was bootstrapped
// with its weights, and so at which iteration the clock starts.
bool Cluster::Begin(uint64_t beyond) {
  if (!in_sync()) return false;
  own_start_ = bootstrapped() ? static_cast<uint64_t>(start_) : 0;
  counted_ = beyond;
  iterations_.StartAt(static_cast<int64_t>(own_start_ + beyond));
  begun_ = true;
  return true;
}

// Reads the segments towards node 0 last, so that their weights take precedence.
bool Cluster::ReadMerged(float* to, const std::function<bool()>& stop) {
  std::lock_guard lock(reading_);
  bool whole = true;
  for (const bool above : {true, false}) {
    for (ClusterSegment& segment : segments_) {
      if (segment.above == above) whole &= ReadMerged(&segment, to + segment.begin, stop);
    }
  }
  return whole;
}

bool Cluster::ReadMerged(ClusterSegment* segment, float* to, const std::function<bool()>& stop) {
  MergedReader& merged = segment->net->merged();
  merged.Begin(to);
  segment->net->transport().Wake();
  while (!merged.Wait(kStopMs) && !stop()) {
  }
  return merged.End();
}

std::vector<IterationRange> Cluster::TakeRemoteIterations() {
  std::lock_guard lock(mutex_);
  return std::exchange(unreported_, {});
}

}  // namespace millrace::inline cluster
