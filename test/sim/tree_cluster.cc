#include "test/sim/tree_cluster.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::sim {
namespace {

constexpr uint64_t kTree = 7, kThrottle = 15, kPauses = 22, kReports = 23;  // random streams
constexpr int64_t kPauseTicks = 64;  // ticks for which a solver stays at work or idle
constexpr int64_t kSettleWithin = 6000, kStill = 60;

}  // namespace

TreeCluster::TreeCluster(const TreeOptions& options)
    : options_(options),
      stride_(options.shape.nodes + 1),
      rng_(options.seed, {kTree}),
      nodes_(options.shape.nodes),
      room_(options.faults.rate) {
  for (size_t i = 0; i < options.shape.segments.size(); ++i) {
    networks_.emplace_back(options.seed + i, options.shape.nodes, options.faults, SIZE_MAX);
  }
  for (Node& node : nodes_) node.made.resize(options.chunks);
}

void TreeCluster::Start(uint16_t id) {
  Node& node = nodes_[id];
  node.weights.assign(int64_t{options_.chunks} * stride_, 0.0f);
  node.begun = false;
  ++node.incarnation;
  std::vector<ExchangeConfig> configs;  // by end
  for (size_t i = 0; i < options_.shape.segments.size(); ++i) {
    const std::vector<uint16_t>& members = options_.shape.segments[i];
    if (std::find(members.begin(), members.end(), id) == members.end()) continue;
    End& end = node.ends.emplace_back();
    end.segment = i;
    end.is_top = members.front() == id;
    ExchangeConfig config = TickConfig();
    config.run = 0x7ee0 + i;
    config.node = id;
    config.max_nodes = options_.shape.nodes;
    config.incarnation = node.incarnation * 1000;
    config.slots = 64;
    config.damping = DampingOf(i);
    if (i < options_.position_codecs.size()) config.position_codec = options_.position_codecs[i];
    SetBootstrap(members, &config);
    config.bootstraps_when_allowed = config.sole_bootstrapper;
    configs.push_back(config);
  }
  node.segments = node.ends.size();
  for (size_t i = 0; i < node.ends.size(); ++i) {
    End& end = node.ends[i];
    configs[i].passes_all_on = end.is_top && node.ends.size() > 1;
    end.Start(configs[i], node.weights, ChunkFloats(end.segment), nullptr, {}, RuleOf(end.segment));
  }
}

void TreeCluster::Crash(uint16_t id) {
  Node& node = nodes_[id];
  for (const End& end : node.ends) {
    node.resets_before += end.exchange->stats().resets;
    networks_[end.segment].Clear(id);
  }
  node.ends.clear();
  ++node.crashes;
}

void TreeCluster::Heal() {
  for (Network& network : networks_) network.Heal();
}

uint64_t TreeCluster::incarnations_lost(uint16_t id) const {
  const Node& node = nodes_[id];
  uint64_t lost = node.crashes + node.resets_before;
  for (const End& end : node.ends) lost += end.exchange->stats().resets;
  return lost;
}

bool TreeCluster::AnyRelayLostAnIncarnation() const {
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].segments > 1 && incarnations_lost(id) > 0) return true;
  }
  return false;
}

const Exchange& TreeCluster::exchange(uint16_t id, size_t segment) const {
  for (const End& end : nodes_[id].ends) {
    if (end.segment == segment) return *end.exchange;
  }
  throw Error("node ", id, " is not in segment ", segment);
}

bool TreeCluster::InSync(const Node& node) const {
  return std::all_of(node.ends.begin(), node.ends.end(),
                     [](const End& end) { return end.exchange->in_sync(); });
}

// Distributes iterations and merges among the node's segments, as Cluster::Count does.
void TreeCluster::Count(Node* node) {
  uint64_t beyond = 0, merges = 0;
  for (End& end : node->ends) {
    const uint64_t global = end.exchange->global_iterations();
    end.others = std::max(end.others, global - std::min(global, end.reported));
    beyond += end.others;
    merges += end.exchange->stats().merges();
  }
  const bool has_weights = std::all_of(node->ends.begin(), node->ends.end(), [](const End& end) {
    return end.is_top || end.exchange->in_sync();
  });
  for (End& end : node->ends) {
    if (has_weights) end.exchange->AllowBootstrap();
  }
  if (!node->begun && !InSync(*node)) return;
  node->begun = true;
  for (End& end : node->ends) {
    end.reported = node->steps + beyond - end.others;
    end.exchange->SetProgress(end.reported);
    const uint64_t others = merges - end.exchange->stats().merges();
    if (others != end.reported_merges) end.exchange->WeightsChanged();
    end.reported_merges = others;
  }
}

void TreeCluster::Solve(uint16_t id) {
  Node& node = nodes_[id];
  if (!training_ || !node.begun || !InSync(node)) return;
  if (options_.solver) {
    node.steps += options_.solver(id, node.weights);
    return;
  }
  if (rng_.Uniform() >= options_.busy) return;
  const auto period = static_cast<uint64_t>(tick_ / kPauseTicks);
  if (options_.pauses > 0 &&
      Rng(options_.seed, {kPauses, id, period}).Uniform() < options_.pauses) {
    return;
  }
  const int chunk = static_cast<int>(rng_.Below(options_.chunks));
  node.weights[chunk * stride_ + id] += 1;
  node.made[chunk] += 1;
  ++node.steps;
}

void TreeCluster::Step(uint16_t id) {
  Node& node = nodes_[id];
  if (node.ends.empty() || tick_ < node.frozen_until) return;
  for (End& end : node.ends) end.Receive(&networks_[end.segment], tick_);
  Solve(id);
  Rng reports(options_.seed, {kReports, id, static_cast<uint64_t>(tick_)});
  if (reports.Uniform() >= options_.late_reports) Count(&node);
  for (End& end : node.ends) Send(&node, &end);
}

void TreeCluster::Send(Node* node, End* end) {
  if (flushed_) end->exchange->Flush();
  if (options_.throttled > 0 && tick_ % kThrottleTicks == 0) {
    const Rng rng(options_.seed,
                  {kThrottle, end->node, end->segment, static_cast<uint64_t>(tick_)});
    ThrottleAtRandom(options_.throttled, !flushed_, rng, end->exchange.get());
  }
  end->Send(&networks_[end->segment], room_, tick_);
  if (end->exchange->stats().resets != end->resets) end->synced = false;
  end->resets = end->exchange->stats().resets;
  if (end->synced || !end->exchange->in_sync()) return;
  end->synced = node->begun;
  std::fill(end->dropped.begin(), end->dropped.end(), 0.0);
}

double TreeCluster::dropped(int chunk, uint16_t of) const {
  double sum = 0;
  for (const Node& node : nodes_) {
    for (const End& end : node.ends) {
      if (end.synced) sum += end.dropped[static_cast<size_t>(chunk * stride_ + of)];
    }
  }
  return sum;
}

std::optional<Failure> TreeCluster::Check() const {
  if (options_.solver) return std::nullopt;          // it makes no tokens
  if (!options_.rules.empty()) return std::nullopt;  // masters add more or less than diffs
  if (!options_.position_codecs.empty()) return std::nullopt;  // lanes hold rounded numbers
  const double rounding = options_.damping ? 0.01 : 0;
  // What a relay lacks after it lost an incarnation, it also takes back from its other segment,
  // where the end of a damped run may have dropped it already.
  const bool lacks = options_.damping && AnyRelayLostAnIncarnation();
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    if (!running(id)) continue;
    for (int chunk = 0; chunk < options_.chunks; ++chunk) {
      for (uint16_t of = 0; of < nodes_.size(); ++of) {
        const float value = lane(id, chunk, of);
        if ((lacks || value >= -rounding) && value <= made(of, chunk) + rounding) continue;
        return Failure{"exactly-once",
                       StrCat("tick ", tick_, ": node ", id, ", chunk ", chunk, " holds ", value,
                              " of node ", of, ", which made ", made(of, chunk))};
      }
    }
  }
  return std::nullopt;
}

std::optional<Failure> TreeCluster::Run(int64_t ticks) {
  for (const int64_t end = tick_ + ticks; tick_ < end; ++tick_) {
    for (uint16_t id = 0; id < nodes_.size(); ++id) Step(id);
    if (const auto failure = Check()) return failure;
  }
  return std::nullopt;
}

bool TreeCluster::Settled() const {
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    for (const End& end : nodes_[id].ends) {
      const std::vector<uint16_t>& members = options_.shape.segments[end.segment];
      const auto there = std::count_if(members.begin(), members.end(),
                                       [&](uint16_t member) { return running(member); });
      const View& view = end.exchange->view();
      if (!end.exchange->quiescent() || view.synced() != static_cast<size_t>(there) ||
          view.members.size() != static_cast<size_t>(there)) {
        return false;
      }
    }
  }
  return true;
}

std::optional<Failure> TreeCluster::Settle() {
  int64_t still = 0;
  for (const int64_t until = tick_ + kSettleWithin; still < kStill;) {
    if (tick_ > until) return Failure{"settles", StrCat("not at rest at tick ", tick_, Describe())};
    if (const auto failure = Run(1)) return failure;
    still = Settled() ? still + 1 : 0;
  }
  return std::nullopt;
}

std::optional<Failure> TreeCluster::CheckReplicas() const {
  const Node* first = nullptr;
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    if (!running(id)) continue;
    if (!first) first = &nodes_[id];
    if (nodes_[id].weights != first->weights) {
      return Failure{"replicas-equal", StrCat("node ", id, " holds other weights", Describe())};
    }
  }
  return std::nullopt;
}

std::string TreeCluster::Describe() const {
  std::string text;
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    text += StrCat("\n  node ", id, " lost ", incarnations_lost(id), " incarnations;");
    for (const End& end : nodes_[id].ends) {
      text += StrCat(" segment ", end.segment, ": view ", end.exchange->view().id.epoch, "/",
                     end.exchange->view().id.coordinator, " of ",
                     end.exchange->view().members.size(), end.exchange->in_sync() ? " in sync" : "",
                     end.exchange->quiescent() ? " quiescent;" : ";");
    }
    for (int chunk = 0; running(id) && chunk < options_.chunks; ++chunk) {
      text += " [";
      for (uint16_t of = 0; of < nodes_.size(); ++of) text += StrCat(" ", lane(id, chunk, of));
      text += "]";
    }
  }
  text += "\n  made:";
  for (int chunk = 0; chunk < options_.chunks; ++chunk) {
    text += " [";
    for (uint16_t of = 0; of < nodes_.size(); ++of) text += StrCat(" ", made(of, chunk));
    text += "]";
  }
  return text;
}

}  // namespace millrace::sim
