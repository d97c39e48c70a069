// Trees of random shape under random faults. Environment: SEEDS=n and FIRST_SEED, as of
// sim_test.cc; one tree for every kSeedsPerTree seeds. SEEDS=1 FIRST_SEED=n repeats a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "test/sim/setting.h"
#include "test/sim/tree_cluster.h"

namespace millrace::sim {
namespace {

constexpr int64_t kSeedsPerTree = 50;
constexpr uint64_t kShape = 16, kFaults = 17, kLater = 24;  // random streams

// Segments of two to four nodes. Each but the first hangs below a node of an earlier one.
Shape DrawShape(uint64_t seed) {
  Rng rng(seed, {kShape});
  Shape shape;
  const uint64_t segments = 2 + rng.Below(3);
  for (uint64_t i = 0; i < segments; ++i) {
    std::vector<uint16_t> members;
    if (i > 0) members.push_back(static_cast<uint16_t>(rng.Below(shape.nodes)));
    const uint64_t more = 1 + rng.Below(3) + (i == 0);
    for (uint64_t k = 0; k < more; ++k) members.push_back(shape.nodes++);
    shape.segments.push_back(members);
  }
  return shape;
}

class TreeRun {
 public:
  explicit TreeRun(uint64_t seed) : rng_(seed, {kFaults}) {
    options_.shape = DrawShape(seed);
    options_.seed = seed;
    options_.chunks = 1 + static_cast<int>(rng_.Below(6));
    options_.busy = Chance(0.2) ? 0.02 : rng_.Uniform();
    options_.damping = Chance(0.5);
    if (Chance(0.4)) options_.throttled = Chance(0.3) ? 1 : rng_.Uniform();
    LinkFaults& faults = options_.faults;
    if (Chance(0.7)) faults.loss = 0.15 * rng_.Uniform();
    faults.uneven_loss = Chance(0.5);
    if (Chance(0.5)) faults.duplicate = 0.2 * rng_.Uniform();
    faults.delay_max = 1 + static_cast<int64_t>(rng_.Below(8));
    if (options_.throttled > 0 && Chance(0.3))
      faults.rate = 3 + static_cast<int64_t>(rng_.Below(6));
    DrawLater(seed);
    tree_ = std::make_unique<TreeCluster>(options_);
  }

  // Returns the violated property, if any.
  std::optional<Failure> Run() {
    for (uint16_t node = 0; node < options_.shape.nodes; ++node) {
      tree_->Start(node);
      if (!Runs(Chance(0.3) ? 100 : 0)) return failure_;
    }
    if (!Runs(400)) return failure_;
    for (uint64_t events = rng_.Below(4); events > 0; --events) {
      if (!Event() || !Runs(100 + rng_.Below(200))) return failure_;
    }
    tree_->Heal();
    tree_->Train(false);
    if (options_.damping) tree_->Flush();
    failure_ = tree_->Settle();
    if (!failure_) failure_ = tree_->CheckReplicas();
    if (!failure_) CheckConservation();
    return failure_;
  }
  // Whether every token could be checked.
  bool whole() const { return whole_; }
  const TreeOptions& options() const { return options_; }
  // Shape, settings and events, in readable form.
  std::string Describe() const {
    std::string text = StrCat("damping ", options_.damping, ", throttled ", options_.throttled,
                              ", loss ", options_.faults.loss, ", pauses ", options_.pauses,
                              ", late reports ", options_.late_reports, "; segments");
    for (const std::vector<uint16_t>& members : options_.shape.segments) {
      for (size_t i = 0; i < members.size(); ++i) text += StrCat(i > 0 ? "," : " ", members[i]);
    }
    for (const int64_t floats : options_.chunk_floats) text += StrCat("; chunks of ", floats);
    return text + events_;
  }

 private:
  // Options of a separate random stream, which leaves all others of a seed unchanged.
  void DrawLater(uint64_t seed) {
    Rng rng(seed, {kLater});
    if (rng.Uniform() < 0.3) options_.pauses = rng.Uniform();
    if (rng.Uniform() < 0.5) options_.late_reports = 0.8 * rng.Uniform();
    if (rng.Uniform() < 0.5) return;
    for (size_t i = 0; i < options_.shape.segments.size(); ++i) {
      options_.chunk_floats.push_back(1 +
                                      static_cast<int64_t>(rng.Below(3 * options_.shape.nodes)));
    }
  }
  bool Chance(double p) { return rng_.Uniform() < p; }
  bool Runs(uint64_t ticks) {
    failure_ = tree_->Run(static_cast<int64_t>(ticks));
    return !failure_;
  }
  bool IsRelay(uint16_t node) const {
    return std::count_if(options_.shape.segments.begin(), options_.shape.segments.end(),
                         [&](const std::vector<uint16_t>& members) {
                           return std::count(members.begin(), members.end(), node) > 0;
                         }) > 1;
  }
  // Crashes a node, which returns, or stops it for a while. Most crashes spare relays.
  bool Event() {
    const auto node = static_cast<uint16_t>(rng_.Below(options_.shape.nodes));
    if (Chance(0.5) || (IsRelay(node) && !Chance(0.2))) {
      const int64_t ticks = 5 + static_cast<int64_t>(rng_.Below(120));
      events_ += StrCat("; tick ", tree_->tick(), ": node ", node, " stands still for ", ticks);
      tree_->FreezeUntil(node, tree_->tick() + ticks);
      return true;
    }
    const uint64_t ticks = 1 + rng_.Below(250);
    events_ += StrCat("; tick ", tree_->tick(), ": node ", node, " is gone for ", ticks);
    tree_->Crash(node);
    if (!Runs(ticks)) return false;
    tree_->Start(node);
    return true;
  }
  // All replicas hold all progress of nodes that lost no incarnation, except for what damping has
  // dropped. Not checked if a relay lost an incarnation, which divides the tree.
  void CheckConservation() {
    for (uint16_t node = 0; node < options_.shape.nodes; ++node) {
      if (IsRelay(node) && tree_->incarnations_lost(node) > 0) return;
    }
    whole_ = true;
    for (uint16_t of = 0; of < options_.shape.nodes; ++of) {
      if (tree_->incarnations_lost(of) > 0) continue;
      for (int chunk = 0; chunk < options_.chunks; ++chunk) {
        const double expected = tree_->made(of, chunk) - tree_->dropped(chunk, of);
        const double rounding = options_.damping ? 1e-2 + 1e-4 * expected : 0;
        if (std::abs(tree_->lane(0, chunk, of) - expected) <= rounding) continue;
        failure_ = {"conservation",
                    StrCat("chunk ", chunk, " holds ", tree_->lane(0, chunk, of), " of node ", of,
                           ", expected ", expected, tree_->Describe())};
        return;
      }
    }
  }

  Rng rng_;
  TreeOptions options_;
  std::unique_ptr<TreeCluster> tree_;
  std::optional<Failure> failure_;
  std::string events_;
  bool whole_ = false;
};

TEST(TreeSimulation, HoldsAllPropertiesForManySeeds) {
  const int64_t trees = (Setting("SEEDS", 10000) + kSeedsPerTree - 1) / kSeedsPerTree;
  const int64_t first = Setting("FIRST_SEED", 1);
  std::atomic<int64_t> next{first};
  std::mutex mutex;
  int64_t whole = 0, damped = 0, failures = 0;
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    workers.emplace_back([&] {
      for (int64_t seed; (seed = next++) < first + trees;) {
        TreeRun run(static_cast<uint64_t>(seed));
        const auto failure = run.Run();
        const std::lock_guard lock(mutex);
        whole += run.whole();
        damped += run.whole() && run.options().damping;
        if (!failure) continue;
        ADD_FAILURE() << "seed " << seed << ": " << failure->property << ": " << failure->detail
                      << "\n  " << run.Describe();
        if (++failures >= 3) next = first + trees;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::cout << trees << " trees, every token checked in " << whole << ", of which " << damped
            << " damped\n";
  if (trees >= 20) {
    EXPECT_GT(damped, trees / 8);
    EXPECT_GT(whole, trees / 2);
  }
}

}  // namespace
}  // namespace millrace::sim
