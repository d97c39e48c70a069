#include "test/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/crc32c.h"
#include "base/error.h"

namespace millrace::sim {
namespace {

constexpr int64_t kFaultyQuiet = 150;    // ticks after training in which link faults continue
constexpr int64_t kSettleWithin = 4000;  // maximum ticks after that until all nodes are quiescent
constexpr int64_t kStill = 20;           // ticks of quiescence after which a run has settled
// The same if a link was broken until now, because the view may still change.
constexpr int64_t kStillLinked = 120;
constexpr int64_t kSilence = 100;  // ticks after that in which no exchange frame may be sent
// Ticks without other events while links stay broken. More than docs/exchange.md allows for the
// view to follow, for several broken links in sequence.
constexpr int64_t kBrokenQuiet = 900;
// The same where nodes are throttled and send few full-size frames (LinkMonitor::kMissed).
constexpr int64_t kBrokenQuietIfThrottled = 2700;

constexpr uint64_t kTransport = 6, kThrottle = 9, kViewCost = 20;  // random streams

// Length of a position. All chunks except the last have this size.
size_t LargestBytes(const Scenario& s) {
  const int floats = s.chunks > 1 ? 2 * s.nodes + 1 : 2 * s.nodes;
  return kFrameHeaderBytes + 8 * AckWords(s.nodes) + 4 * static_cast<size_t>(floats);
}

}  // namespace

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      rng_(scenario.seed, {kTransport}),
      network_(scenario.seed, scenario.nodes, scenario.faults, LargestBytes(scenario)),
      waiting_(scenario.nodes),
      room_(scenario.faults.rate),
      traced_(scenario.nodes) {
  for (uint16_t id = 0; id < scenario_.nodes; ++id) {
    nodes_.push_back(std::make_unique<SimNode>(scenario_, id));
    all_.push_back(nodes_.back().get());
    if (id < scenario_.nodes - scenario_.late) nodes_[id]->Start();
  }
}

std::vector<const SimNode*> Simulation::Running() const {
  std::vector<const SimNode*> running;
  for (const SimNode* node : all_) {
    if (node->running()) running.push_back(node);
  }
  return running;
}

// Returns true if another node holds the same weights, so that they survive the loss of this
// one.
bool Simulation::OthersKnowAll(uint16_t id) const {
  const Exchange& own = nodes_[id]->exchange();
  return std::any_of(all_.begin(), all_.end(), [&](const SimNode* node) {
    return node->id() != id && node->running() && !node->leaving() && node->exchange().in_sync() &&
           node->exchange().view().id == own.view().id;
  });
}

void Simulation::Happen() {
  for (; next_event_ < scenario_.events.size(); ++next_event_) {
    const Event& event = scenario_.events[next_event_];
    if (event.at > tick_) break;
    SimNode& node = *nodes_[event.node];
    switch (event.kind) {
      case Event::Kind::kCrash:
        if (!node.running() || !OthersKnowAll(event.node)) break;
        Crash(event.node);
        break;
      case Event::Kind::kRestart:
        if (!node.running()) node.Start();
        break;
      case Event::Kind::kClockBack:
        if (!node.running()) node.StartWithClockBack();
        break;
      case Event::Kind::kLeave:
        if (node.running() && !node.leaving() && OthersKnowAll(event.node)) node.Leave();
        break;
      case Event::Kind::kDemote:
        node.FreezeUntil(tick_ + event.ticks);
        break;
      case Event::Kind::kPartition:
        network_.Partition(event.mask);
        cut_until_ = tick_ + event.ticks;
        break;
      case Event::Kind::kBreak:
      case Event::Kind::kBlackHole:
        network_.Break(event.node, event.mask, event.kind == Event::Kind::kBlackHole,
                       tick_ + event.ticks);
        break;
    }
  }
  if (tick_ == cut_until_) network_.Partition(0);
}

bool Simulation::Step(uint16_t id, Failure* failure) {
  SimNode& node = *nodes_[id];
  if (!node.running() || node.frozen(tick_)) return true;
  const int64_t now = tick_ * kTickNs;
  const ViewId before = node.exchange().view().id;
  const std::vector<Network::Arrival> arrived = network_.Arrived(id, tick_);
  node.Receive(arrived, now);
  if (training_) node.Train(tick_);
  const bool rounds = scenario_.damping || scenario_.position_codec != Codec::kFloat32;
  if (!training_ && rounds && !node.flushed()) node.Flush();
  if (tick_ % kThrottleTicks == 0 && scenario_.throttled > 0) {
    const Rng rng(scenario_.seed, {kThrottle, id, static_cast<uint64_t>(tick_)});
    ThrottleAtRandom(scenario_.throttled, training_, rng, &node.exchange());
  }
  const size_t count = node.exchange().Send(room_, now);
  if (scenario_.view_cost > 0 && node.exchange().view().id != before) {
    Rng rng(scenario_.seed, {kViewCost, id, static_cast<uint64_t>(tick_)});
    const auto cost =
        static_cast<int64_t>(rng.Below(static_cast<uint64_t>(scenario_.view_cost) + 1));
    node.FreezeUntil(tick_ + 1 + cost);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto linger = static_cast<int64_t>(rng_.Below(scenario_.linger + 1));
    waiting_[id].push_back({room_[i], tick_ + linger});
  }
  Transmit(id, node.exchange().left());
  summary_.frames += count;
  const bool every_tick = scenario_.nodes <= 8 || tick_ % 16 == 0;
  return !every_tick || node.Check(all_, failure);
}

void Simulation::Transmit(uint16_t id, bool all) {
  std::deque<Waiting>& waiting = waiting_[id];
  for (; !waiting.empty() && (all || waiting.front().leaves_at <= tick_); waiting.pop_front()) {
    const PostedFrame& frame = waiting.front().frame;
    summary_.digest = Crc32c(frame.payload, Crc32c(frame.head, summary_.digest));
    network_.Transmit(id, frame.destination, frame.head, frame.payload, tick_);
    nodes_[id]->exchange().Release(frame.slot);
  }
}

// Some of the first frames in the node's transport may leave just before the crash.
void Simulation::Crash(uint16_t id) {
  while (!waiting_[id].empty() && rng_.Uniform() < 0.7) {
    waiting_[id].front().leaves_at = tick_;
    const size_t before = waiting_[id].size();
    Transmit(id, false);
    if (waiting_[id].size() == before) break;
  }
  waiting_[id].clear();
  nodes_[id]->Crash();
  network_.Clear(id);
}

bool Simulation::Tick(Failure* failure) {
  Happen();
  for (uint16_t id = 0; id < scenario_.nodes; ++id) {
    if (!Step(id, failure)) return false;
    if (nodes_[id]->running()) {
      const uint32_t epoch = nodes_[id]->exchange().view().id.epoch;
      if (epoch > highest_epoch_) ++summary_.views;
      highest_epoch_ = std::max(highest_epoch_, epoch);
      if (trace_) TraceView(id);
    }
  }
  ++tick_;
  return true;
}

// Returns true if all running nodes are in one view that has no other members, and are
// quiescent.
bool Simulation::Settled() const {
  const auto running = Running();
  return std::all_of(running.begin(), running.end(), [&](const SimNode* node) {
    const View& view = node->exchange().view();
    return !node->frozen(tick_) && !node->leaving() && node->exchange().quiescent() &&
           view.id == running[0]->exchange().view().id && view.members.size() == running.size() &&
           view.synced() == running.size();
  });
}

// Tick at which the last event ends, without the events that last until the links are healed.
int64_t Simulation::LastsUntil() const {
  int64_t last = 0;
  for (const Event& e : scenario_.events) {
    if (e.ticks < scenario_.active + kSettleWithin) last = std::max(last, e.at + e.ticks);
  }
  return last;
}

std::optional<Failure> Simulation::Run() {
  Failure failure;
  const auto last_event = scenario_.events.empty() ? 0 : scenario_.events.back().at;
  const int64_t end = std::max(scenario_.active, last_event);
  while (tick_ <= end) {
    training_ = tick_ < scenario_.active;
    if (!Tick(&failure)) return failure;
  }
  const bool broken = scenario_.stays_broken();
  const int64_t quiet = scenario_.throttled > 0 ? kBrokenQuietIfThrottled : kBrokenQuiet;
  const int64_t until = broken ? std::max(tick_, LastsUntil()) + quiet : tick_ + kFaultyQuiet;
  while (tick_ < until) {
    if (!Tick(&failure)) return failure;
  }
  if (broken && !CheckLinks(&failure)) return failure;
  network_.Heal();
  const bool any_broken =
      scenario_.Has(Event::Kind::kBreak) || scenario_.Has(Event::Kind::kBlackHole);
  const int64_t under_way = scenario_.linger + scenario_.faults.delay_max;
  const int64_t rest = (any_broken ? kStillLinked : kStill) + under_way;
  int64_t still = 0;
  for (const int64_t until = tick_ + kSettleWithin; still < rest;) {
    if (tick_ > until) return Failure{"settles", StrCat("not at rest at tick ", tick_)};
    if (!Tick(&failure)) return failure;
    still = Settled() ? still + 1 : 0;
  }
  Summarise();
  if (!CheckEnd(&failure)) return failure;
  return std::nullopt;
}

bool Simulation::CheckEnd(Failure* failure) {
  return CheckReplicas(failure) && CheckConservation(failure) && CheckClocks(failure) &&
         CheckSurvivors(failure) && CheckSilence(failure);
}

bool Simulation::CheckReplicas(Failure* failure) const {
  const auto running = Running();
  const float tolerance = scenario_.unsent();
  const std::vector<float>& first = running[0]->weights();
  for (const SimNode* node : running) {
    for (size_t i = 0; i < first.size(); ++i) {
      const float diff = std::abs(node->weights()[i] - first[i]);
      if (diff <= tolerance) continue;
      *failure = {"replicas-equal",
                  StrCat("weight ", i, " is ", first[i], " on node ", running[0]->id(), ", ",
                         node->weights()[i], " on node ", node->id())};
      return false;
    }
  }
  return true;
}

// All progress of nodes that lost no incarnation is on every replica, except for the rest that
// damping has dropped at the end; of other nodes, at most what they made. Progress that a leaving
// node handed over belongs to its receivers.
bool Simulation::CheckConservation(Failure* failure) const {
  if (scenario_.momentum) return true;  // masters add more than what nodes made
  const auto running = Running();
  const bool any_lost = std::any_of(
      all_.begin(), all_.end(), [](const SimNode* node) { return node->incarnations_lost() > 0; });
  const bool any_excluded = any_lost || std::any_of(all_.begin(), all_.end(), [](const SimNode* n) {
                              return n->was_excluded();
                            });
  for (const SimNode* node : all_) {
    for (int c = 0; c < scenario_.chunks; ++c) {
      const bool lost_nothing = node->incarnations_lost() == 0 && (!node->has_left() || !any_lost);
      const double made = node->made(c) - (lost_nothing ? node->dropped(c) : 0);
      const double value = running[0]->lane(c, node->id());
      // The next diff returns what a codec rounded up; a lost incarnation does not send it.
      const double rounded = lost_nothing ? 1e-3 + 1e-5 * made : node->slack(made);
      // A master that is lost takes with it what its positions have rounded off, also one that has
      // made no progress of its own.
      const double lost = any_excluded ? running[0]->rounding(c) : 0;
      const double tolerance = scenario_.unsent() + (node->exact() ? 0 : rounded + lost);
      // It also takes with it what its changes have left out.
      const bool left_out = any_excluded && scenario_.position_codec == Codec::kSparse;
      const bool holds_all = lost_nothing && !left_out;
      if (value <= made + tolerance && (!holds_all || value >= made - tolerance)) continue;
      *failure = {"conservation",
                  StrCat("chunk ", c, " holds ", value, " of node ", node->id(), ", which made ",
                         made, " and lost ", node->incarnations_lost(), " incarnations")};
      return false;
    }
  }
  return true;
}

bool Simulation::CheckClocks(Failure* failure) const {
  const auto running = Running();
  uint64_t steps = 0, wild = 0, lost = 0;
  for (const SimNode* node : all_) {
    steps += node->steps() + node->first_iterations();
    wild += node->wild_steps();
    lost += node->incarnations_lost();
  }
  for (const SimNode* node : running) {
    const uint64_t global = node->exchange().global_iterations();
    if (global != running[0]->exchange().global_iterations() || global > steps + wild ||
        (lost == 0 && global < steps && !scenario_.near_limits)) {  // clocks stay at their limit
      *failure = {"global-iteration",
                  StrCat("node ", node->id(), " counts ", global, ", node ", running[0]->id(), " ",
                         running[0]->exchange().global_iterations(), ", made were ", steps)};
      return false;
    }
  }
  return true;
}

// If links deliver and no node freezes, only crashes lose incarnations.
bool Simulation::CheckSurvivors(Failure* failure) const {
  if (scenario_.faults.loss > 0 || scenario_.faults.corrupt > 0 || scenario_.faults.queue < 1000 ||
      scenario_.faults.rate < 32 || scenario_.nodes > 6 || scenario_.view_cost > 0) {
    return true;
  }
  for (const Event& e : scenario_.events) {
    if (e.kind == Event::Kind::kDemote || e.kind == Event::Kind::kPartition ||
        e.kind == Event::Kind::kBreak || e.kind == Event::Kind::kBlackHole) {
      return true;
    }
  }
  for (const SimNode* node : all_) {
    const auto crashes = std::count_if(
        scenario_.events.begin(), scenario_.events.end(),
        [&](const Event& e) { return e.kind == Event::Kind::kCrash && e.node == node->id(); });
    if (node->incarnations_lost() <= static_cast<uint64_t>(crashes)) continue;
    *failure = {"survivors", StrCat("node ", node->id(), " lost ", node->incarnations_lost(),
                                    " incarnations, but crashed ", crashes, " times")};
    return false;
  }
  return true;
}

// After links have stayed broken for kBrokenQuiet ticks, all members of a view receive each
// other's frames, except nodes that wait to join the next view.
bool Simulation::CheckLinks(Failure* failure) const {
  // With high loss, links change between broken and intact.
  const double max_loss = scenario_.faults.loss * (scenario_.faults.uneven_loss ? 2 : 1);
  if (max_loss > 0.05 || scenario_.faults.queue < 1000) return true;
  const auto running = Running();
  for (const SimNode* a : running) {
    const ViewId id = a->exchange().view().id;
    if (!id || a->exchange().waits_to_join()) continue;
    for (const SimNode* b : running) {
      const Exchange& other = b->exchange();
      if (b == a || other.view().id != id || other.waits_to_join()) continue;
      if (!network_.Carries(a->id(), b->id(), tick_)) {
        *failure = {"broken-links", StrCat("node ", b->id(), " receives no frames from node ",
                                           a->id(), ", but is in one view with it")};
        return false;
      }
    }
  }
  return true;
}

uint64_t Simulation::FramesSent() const {
  uint64_t count = 0;
  for (const SimNode* node : Running()) count += ExchangeFrames(node->exchange());
  return count;
}

bool Simulation::CheckSilence(Failure* failure) {
  const uint64_t before = FramesSent();
  for (int64_t i = 0; i < kSilence; ++i) {
    if (!Tick(failure)) return false;
  }
  const uint64_t more = FramesSent() - before;
  if (more == 0 && Settled()) return true;
  *failure = {"no-traffic-without-progress", StrCat(more, " frames after all was quiet")};
  return false;
}

void Simulation::TraceView(uint16_t id) {
  const View& view = nodes_[id]->exchange().view();
  if (view.id == traced_[id]) return;
  traced_[id] = view.id;
  std::cout << "tick " << tick_ << " node " << id << " view " << ViewText(view) << "\n";
}

std::string Simulation::Describe() const {
  static constexpr const char* kStates[] = {"worker", "master", "recovering"};
  std::string text;
  for (const SimNode* node : Running()) {
    const Exchange& x = node->exchange();
    text +=
        StrCat("node ", node->id(), ": view ", ViewText(x.view()), ", in sync ", x.in_sync(),
               ", quiescent ", x.quiescent(), ", global iteration ", x.global_iterations(), "\n");
    for (uint32_t c = 0; c < x.table().size(); ++c) {
      const Chunk& chunk = x.table().chunks[c];
      text +=
          StrCat("  chunk ", c, " of ", chunk.owner, ": ", kStates[static_cast<int>(chunk.state)],
                 ", number ", chunk.number, ", content ", chunk.content, ", seq ", chunk.seq,
                 chunk.pending ? " pending" : "", chunk.dirty ? " dirty" : "",
                 chunk.swept != x.table().version ? " unswept" : "", ", lanes");
      for (uint16_t n = 0; n < scenario_.nodes; ++n) text += StrCat(" ", node->lane(c, n));
      text += "\n";
    }
  }
  return text;
}

void Simulation::Summarise() {
  summary_.ticks = tick_;
  for (const SimNode* node : all_) {
    summary_.incarnations_lost += node->incarnations_lost();
    if (!node->running()) continue;
    const ExchangeStats& stats = node->exchange().stats();
    summary_.diffs_merged += stats.diffs_merged;
    summary_.resends += stats.resends;
    summary_.takeovers += stats.takeovers;
  }
}

}  // namespace millrace::sim
