#include "test/sim/sim_node.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::sim {
namespace {

// Random streams.
constexpr uint64_t kSolver = 3, kInterruption = 4, kPauses = 19, kLimits = 20;

constexpr int64_t kPauseTicks = 48;  // ticks for which a solver stays at work or idle

// One step in this many is interrupted between its load and its store.
constexpr uint64_t kInterrupted = 64;
// Distance between the incarnations of two starts. Larger than the number of a node's resets, so
// that no incarnation occurs twice.
constexpr uint32_t kIncarnationSpan = 10'000;
// With near_limits: distances from the limits, which a run can cover, and starts of a node.
constexpr uint64_t kNear = 400, kStarts = 10;

// The sum of all progress, for which the master's weights are apart from those of its solvers.
struct AddsOwnRule : AdditiveRule {
  static constexpr bool kMergesOwn = true;
};
const RegisterHostRule adds_own({.name = "adds_own"},
                                [](const RuleParameters&) { return AddsOwnRule(); });

MergeRuleConfig RuleOf(const Scenario& s) {
  if (s.merges_own) return {"adds_own", {}};
  if (!s.momentum) return {};
  const double rate = 1.0 / s.nodes;
  return {"outer", {{"rate", rate}, {"momentum", 0.5}, {"nesterov", 1}, {"delay", s.nodes}}};
}

}  // namespace

ExchangeConfig ConfigOf(const Scenario& s, uint16_t id, uint32_t incarnation) {
  ExchangeConfig config = TickConfig();
  config.run = 0x5eed0000 + s.seed;
  config.node = id;
  config.max_nodes = s.nodes;
  config.incarnation = incarnation;
  config.codec = s.codec_config();
  config.slots = s.slots;
  config.direct = s.direct;
  config.damping = s.damping;
  config.position_codec = s.position_codec;
  config.position_share = s.position_share;
  return config;
}

SimNode::SimNode(const Scenario& scenario, uint16_t id)
    : scenario_(scenario),
      id_(id),
      stride_(2 * scenario.nodes + 1),
      rng_(scenario.seed, {kSolver, id}),
      interruptions_(scenario.seed, {kInterruption, id}),
      made_(scenario.chunks),
      ended_(scenario.chunks),
      ended_drops_(scenario.chunks),
      made_wild_(scenario.chunks),
      origin_(scenario.chunks) {
  if (!scenario.near_limits) return;
  Rng limits(scenario.seed, {kLimits, id});
  // The first start, or a later one, is near the limit for what nodes believe of themselves.
  const auto before =
      static_cast<uint32_t>(limits.Below(kNear) + limits.Below(kStarts) * kIncarnationSpan);
  newest_incarnation_ = oldest_incarnation_ = kLatestIncarnation - kIncarnationSpan - before;
  // The first node begins the run as a rule.
  if (id == 0) first_iterations_ = kMaxClock - limits.Below(kNear);
}

void SimNode::Flush() {
  flushed_ = true;
  node_.exchange->Flush();
}

bool SimNode::exact() const {
  if (scenario_.damping) return false;  // shares of tokens are rounded
  if (scenario_.position_codec != Codec::kFloat32) return false;
  return scenario_.codec == Codec::kFloat32 || scenario_.codec == Codec::kSparse;
}

double SimNode::rounding(int chunk) const {
  if (scenario_.position_codec == Codec::kFloat32) return 0;
  float largest = 0;
  for (int i = 0; i < 2 * scenario_.nodes; ++i) {
    largest = std::max(largest, std::abs(node_.weights[chunk * stride_ + i]));
  }
  switch (scenario_.position_codec) {
    case Codec::kInt4:
    case Codec::kSparse:                                // positions in full
      return largest / kInt4Levels * (1 + 1.0f / 128);  // a scale is rounded up
    case Codec::kInt8:
      return largest / kInt8Levels;
    default:
      return largest / 128;
  }
}

void SimNode::Start() {
  newest_incarnation_ += kIncarnationSpan;
  Begin(newest_incarnation_);
}

void SimNode::StartWithClockBack() {
  oldest_incarnation_ -= kIncarnationSpan;
  Begin(oldest_incarnation_);
}

void SimNode::Begin(uint32_t incarnation) {
  const int64_t size = scenario_.chunks * stride_ - 1;  // the last chunk is shorter
  resets_ = 0;
  leaving_ = synced_ = has_trained_ = flushed_ = false;
  holder_.reset();
  node_.Start(ConfigOf(scenario_, id_, incarnation), size, stride_,
              {.late_batch_ops = is_async() ? 4u : 0}, RuleOf(scenario_));
  holder_.emplace(node_.locks.get());
  if (!scenario_.near_limits) return;
  Rng limits(scenario_.seed, {kLimits, id_, incarnation});
  // Even, as the numbers of new chunks: nodes compare the lowest bits.
  const auto seq = static_cast<uint32_t>(-2 * static_cast<int64_t>(limits.Below(20)));
  for (Chunk& chunk : Table().chunks) chunk.seq = seq;
}

// The tests alone change an exchange's table.
ChunkTable& SimNode::Table() { return const_cast<ChunkTable&>(node_.exchange->table()); }

void SimNode::RaiseNumbers() {
  Rng limits(scenario_.seed, {kLimits, id_, 0});
  const uint64_t more = kMaxPositionNumber - 1'000'000 - limits.Below(kNear);
  for (Chunk& chunk : Table().chunks) {
    if (chunk.number >= more) continue;  // of a run that this node had joined
    chunk.number += more;
    chunk.content += more;
  }
}

void SimNode::Receive(const std::vector<Network::Arrival>& arrived, int64_t now) {
  constexpr size_t kPiece = 3;
  const std::vector<std::span<const std::byte>> views = ViewsOf(arrived);
  std::span<const std::span<const std::byte>> frames = views;
  while (is_async() && frames.size() > kPiece) {
    node_.exchange->Receive(frames.first(kPiece), now);
    frames = frames.subspan(kPiece);
  }
  node_.exchange->Receive(frames, now);
  FinishStore();
}

void SimNode::Crash() {
  node_.exchange.reset();
  ++incarnations_lost_;
  EndIncarnation();
}

void SimNode::EndIncarnation() {
  if (store_) holder_->Unlock();
  store_.reset();
  for (int c = 0; c < scenario_.chunks; ++c) {
    ended_drops_[c] = dropped(c);
    ended_[c] += made_[c];
    made_[c] = 0;
  }
  synced_ = false;
}

void SimNode::Leave() {
  FinishStore();
  leaving_ = true;
  node_.exchange->Leave();
}

void SimNode::Train(int64_t tick) {
  if (leaving_ || !synced_ || !node_.exchange->in_sync()) {
    if (!has_trained_ || scenario_.wild == 0 || rng_.Uniform() >= scenario_.wild) return;
    const int chunk = static_cast<int>(rng_.Below(scenario_.chunks));
    node_.weights[chunk * stride_ + scenario_.nodes + id_] += 1;
    made_wild_[chunk] += 1;
    ++wild_steps_;
    node_.exchange->SetProgress(++node_.iterations);
    return;
  }
  if (rng_.Uniform() >= scenario_.busy) return;
  const auto period = static_cast<uint64_t>(tick / kPauseTicks);
  if (scenario_.pauses > 0 &&
      Rng(scenario_.seed, {kPauses, id_, period}).Uniform() < scenario_.pauses) {
    return;
  }
  if (interruptions_.Below(kInterrupted) == 0) return BeginStore();
  const int touched = 1 + static_cast<int>(rng_.Below(scenario_.chunks));
  for (int i = 0; i < touched; ++i) {
    const int chunk = static_cast<int>(rng_.Below(scenario_.chunks));
    const float tokens = token() * static_cast<float>(1 + rng_.Below(3));
    node_.weights[chunk * stride_ + id_] += tokens;
    made_[chunk] += tokens;
  }
  ++all_steps_;
  node_.exchange->SetProgress(++node_.iterations);
}

void SimNode::BeginStore() {
  const int chunk = static_cast<int>(interruptions_.Below(scenario_.chunks));
  // All lanes of the chunk, because a solver's pass moves whole vectors.
  float* const weights = &node_.weights[chunk * stride_];
  const int lanes = 2 * scenario_.nodes;
  holder_->Lock(weights, lanes);
  store_ = {chunk, {weights, weights + lanes}};
  store_->values[id_] += token();
}

void SimNode::FinishStore() {
  if (!store_) return;
  std::ranges::copy(store_->values, &node_.weights[store_->chunk * stride_]);
  holder_->Unlock();
  made_[store_->chunk] += token();
  store_.reset();
  ++all_steps_;
  node_.exchange->SetProgress(++node_.iterations);
}

bool SimNode::Check(const std::vector<const SimNode*>& all, Failure* failure) {
  if (node_.exchange->left()) {
    const bool made_any =
        std::any_of(made_.begin(), made_.end(), [](double made) { return made > 0; });
    if (!node_.exchange->delivered() && made_any) ++incarnations_lost_;
    was_excluded_ |= !node_.exchange->delivered();
    has_left_ = true;
    node_.exchange.reset();
    EndIncarnation();
    return true;
  }
  if (node_.exchange->stats().resets != resets_) {
    resets_ = node_.exchange->stats().resets;
    ++incarnations_lost_;
    EndIncarnation();
  }
  if (!synced_ && node_.exchange->in_sync()) {
    synced_ = has_trained_ = true;
    const Exchange& exchange = *node_.exchange;
    const bool begins = exchange.bootstrapped() && exchange.view().members.size() == 1;
    if (scenario_.near_limits && begins) RaiseNumbers();
    // As a run that continues from a snapshot.
    if (begins && all_steps_ + wild_steps_ == 0 && node_.iterations < first_iterations_) {
      node_.exchange->SetProgress(node_.iterations = first_iterations_);
    }
    std::fill(node_.dropped.begin(), node_.dropped.end(), 0.0);
    for (int c = 0; c < scenario_.chunks; ++c) origin_[c] = lane(c, id_);
    last_ = node_.weights;
  }
  // With momentum, masters add more than what nodes made.
  if (!synced_ || scenario_.momentum) return true;
  return CheckOwn(failure) && CheckOthers(all, failure);
}

// A node's weights always hold its own progress. Exceptions: with damping a remainder is dropped
// at the end, and changes leave out some of what masters have.
bool SimNode::CheckOwn(Failure* failure) {
  if (scenario_.damping && (flushed_ || leaving_)) return true;
  for (int c = 0; c < scenario_.chunks; ++c) {
    const double expected = origin_[c] + made_[c];
    const double tolerance = exact() ? 0 : 1e-3 + 1e-5 * std::abs(expected) + rounding(c);
    const double missing = expected - lane(c, id_);
    const bool may_miss = scenario_.position_codec == Codec::kSparse;
    if ((may_miss || missing <= tolerance) && -missing <= tolerance) continue;
    *failure = {"read-your-own-writes", StrCat("node ", id_, ", chunk ", c, " holds ", lane(c, id_),
                                               " of its own, made ", expected)};
    return false;
  }
  return true;
}

// No lane exceeds the tokens made, and no lane of a replica decreases.
bool SimNode::CheckOthers(const std::vector<const SimNode*>& all, Failure* failure) {
  for (int c = 0; c < scenario_.chunks; ++c) {
    for (const SimNode* other : all) {
      const float wild = wild_lane(c, other->id());
      const double made_wild = other->made_wild(c),
                   most = exact() ? 0 : slack(made_wild) + rounding(c);
      if (wild > made_wild + most || wild < -most) {
        *failure = {"exactly-once",
                    StrCat("node ", id_, ", chunk ", c, " holds ", wild, " of node ", other->id(),
                           ", which wrote ", made_wild, " while it might not train")};
        return false;
      }
      const float value = lane(c, other->id());
      const double made = other->made(c);
      if (value > made + (exact() ? 0 : slack(made) + rounding(c))) {
        *failure = {"exactly-once", StrCat("node ", id_, ", chunk ", c, " holds ", value,
                                           " of node ", other->id(), ", which made ", made)};
        return false;
      }
      if (exact() && value < last_[c * stride_ + other->id()]) {
        *failure = {"nothing-seen-is-lost",
                    StrCat("node ", id_, ", chunk ", c, " held ", last_[c * stride_ + other->id()],
                           " of node ", other->id(), ", holds ", value)};
        return false;
      }
    }
  }
  last_ = node_.weights;
  return true;
}

}  // namespace millrace::sim
