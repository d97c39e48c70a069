#include "test/chaos/fault_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/rng.h"

namespace millrace::test {
namespace {

// Name of a kind and the bounds of its duration and value.
struct Shape {
  FaultKind kind;
  const char* name;
  double least_s, most_s;
  double min_value, max_value;
};
using enum FaultKind;
constexpr std::array<Shape, kFaultKinds> kShapes = {{
    {kKill, "kill", 0.3, 4, 0, 0},
    {kKillLeader, "kill-leader", 0.3, 4, 0, 0},
    {kKillTwo, "kill-two", 0.3, 4, 0, 0},
    {kStop, "stop", 2, 5, 0, 0},
    {kClockBack, "clock-back", 0.3, 3, 60, 5e6},
    {kFreezeShort, "freeze-short", 0.05, 0.6, 0, 0},
    {kFreezeLong, "freeze-long", 1.5, 5, 0, 0},
    {kDiskFull, "disk-full", 4, 8, 0, 0},
    {kIsolate, "isolate", 0.3, 6, 0, 0},
    {kSplit, "split", 0.3, 6, 0, 0},
    {kOneWay, "one-way", 0.3, 6, 0, 0},
    {kPair, "pair", 0.3, 6, 0, 0},
    {kDeaf, "deaf", 0.3, 6, 0, 0},
    {kMute, "mute", 0.3, 6, 0, 0},
    {kLoss, "loss", 1, 6, 0.01, 0.4},
    {kCorrupt, "corrupt", 1, 6, 0.01, 0.2},
    {kDuplicate, "duplicate", 1, 6, 0.01, 0.4},
    {kReorder, "reorder", 1, 6, 0.01, 0.4},
    {kBlackHole, "black-hole", 1, 5, 400, 1400},
    {kRateLimit, "rate-limit", 1, 6, 0.5, 10},
    {kLinkDown, "link-down", 0.3, 5, 0, 0},
    {kRandomFrames, "random-frames", 1, 4, 0, 0},
    {kReplay, "replay", 1, 4, 0, 0},
    {kTruncate, "truncate", 1, 4, 0, 0},
}};

constexpr size_t kMaxAtOnce = 4;
constexpr double kBetween = 0.3;  // minimum seconds between two process faults of one node

const Shape& ShapeOf(FaultKind kind) { return kShapes[static_cast<size_t>(kind)]; }

class Planner {
 public:
  explicit Planner(const PlanOptions& options)
      : nodes_(options.nodes), rng_(options.seed, {0xc405, uint64_t(options.first_kind)}) {
    // The order of the kinds depends on the seed only, so it is equal for all runs of that seed.
    Rng order(options.seed, {0xdec});
    for (int kind = 0; kind < kFaultKinds; ++kind) {
      if ((options.without >> kind & 1) == 0) deck_.push_back(kind);
    }
    if (deck_.empty()) throw Error("a plan needs kinds of faults");
    std::shuffle(deck_.begin(), deck_.end(), order);
    next_ = static_cast<size_t>(options.first_kind);
  }

  std::vector<Fault> Make(double seconds) {
    for (;;) {
      const Fault fault = Next();
      if (fault.end > seconds) return plan_;
      plan_.push_back(fault);
    }
  }

 private:
  double Between(double least, double most) { return least + (most - least) * rng_.Uniform(); }
  int Node() { return static_cast<int>(rng_.Below(static_cast<uint64_t>(nodes_))); }

  Fault Next() {
    Fault fault;
    fault.kind = static_cast<FaultKind>(deck_[next_++ % deck_.size()]);
    const Shape& shape = ShapeOf(fault.kind);
    fault.value = Between(shape.min_value, shape.max_value);
    fault.first = Node();
    do fault.second = Node();
    while (fault.second == fault.first);
    // A set of nodes: neither the empty one nor all.
    fault.group = 1 + static_cast<uint32_t>(rng_.Below((uint64_t{1} << nodes_) - 2));
    const bool on_all_links = rng_.Below(2) == 0;
    Leave(&fault, on_all_links);
    const double length = Between(shape.least_s, shape.most_s);
    const bool alone = rng_.Below(3) == 0;
    fault.begin = alone ? LastEnd() + Between(0.3, 1.5) : LastBegin() + Between(0.1, 1.5);
    fault.end = fault.begin + length;
    for (double later; (later = Obstacle(fault)) > 0;) {
      fault.begin = later;
      fault.end = fault.begin + length;
    }
    return fault;
  }

  // Clears the fields that the kind does not use.
  static void Leave(Fault* fault, bool on_all_links) {
    const FaultKind kind = fault->kind;
    const bool two = kind == kKillTwo || kind == kOneWay || kind == kPair;
    const bool links = kind >= kLoss && kind <= kBlackHole;
    const bool none = kind == kKillLeader || kind == kSplit || kind >= kRandomFrames;
    if (none || (links && on_all_links)) fault->first = -1;
    if (!two) fault->second = -1;
    if (kind != kSplit) fault->group = 0;
  }

  double LastBegin() const { return plan_.empty() ? 0 : plan_.back().begin; }
  double LastEnd() const {
    double last = 0;
    for (const Fault& each : plan_) last = std::max(last, each.end);
    return last;
  }

  // Next begin time to try if the fault conflicts with the plan so far; 0 if there is no conflict.
  double Obstacle(const Fault& fault) const {
    std::vector<const Fault*> meanwhile, of_processes;
    for (const Fault& each : plan_) {
      if (each.end + kBetween <= fault.begin) continue;
      meanwhile.push_back(&each);
      if (IsOfProcesses(each.kind)) of_processes.push_back(&each);
    }
    double first_end = 1e9;
    for (const Fault* each : meanwhile) first_end = std::min(first_end, each->end);
    if (meanwhile.size() >= kMaxAtOnce) return first_end + kBetween;
    if (!IsOfProcesses(fault.kind) || of_processes.empty()) return 0;
    first_end = 1e9;
    uint32_t nodes = NodesOf(fault);
    int count = Count(fault);
    bool same = fault.kind == kKillLeader;
    for (const Fault* each : of_processes) {
      first_end = std::min(first_end, each->end);
      same |= (nodes & NodesOf(*each)) != 0 || each->kind == kKillLeader;
      count += Count(*each);
    }
    return same || count >= nodes_ ? first_end + kBetween : 0;
  }
  static uint32_t NodesOf(const Fault& fault) {
    return (fault.first < 0 ? 0 : 1u << fault.first) | (fault.second < 0 ? 0 : 1u << fault.second);
  }
  static int Count(const Fault& fault) { return fault.kind == kKillTwo ? 2 : 1; }

  const int nodes_;
  Rng rng_;
  std::vector<int> deck_;
  size_t next_ = 0;
  std::vector<Fault> plan_;
};

std::string NodeText(int node) {
  return node < 0 ? "" : std::string(" ") + static_cast<char>('a' + node);
}

}  // namespace

const char* NameOf(FaultKind kind) { return ShapeOf(kind).name; }

bool IsOfProcesses(FaultKind kind) { return kind <= kDiskFull; }

std::string Describe(const Fault& fault) {
  char times[64];
  std::snprintf(times, sizeof(times), "%.1f-%.1f s ", fault.begin, fault.end);
  std::string text =
      StrCat(times, NameOf(fault.kind), NodeText(fault.first), NodeText(fault.second));
  for (int node = 0; node < 32; ++node) {
    if (fault.group >> node & 1) text += NodeText(node);
  }
  return fault.value == 0 ? text : StrCat(text, " ", fault.value);
}

std::vector<Fault> MakePlan(const PlanOptions& options) {
  if (options.nodes < 3 || options.nodes > 9) throw Error("a plan needs 3 to 9 nodes");
  return Planner(options).Make(options.seconds);
}

}  // namespace millrace::test
