// Runs the exchange with thousands of seeds. Environment: SEEDS=n sets the number of seeds,
// FIRST_SEED the first one, REPLAY=scenario runs one scenario, FIRST_FAILURE=1 stops at the
// first failure and does not reduce it.
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "test/sim/setting.h"
#include "test/sim/simulation.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

std::optional<Failure> RunOnce(const Scenario& scenario) { return Simulation(scenario).Run(); }

// Returns the smallest scenario found that violates the same property.
Scenario Shrink(Scenario scenario, const std::string& property) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Scenario& next : Smaller(scenario)) {
      const auto failure = RunOnce(next);
      if (!failure || failure->property != property) continue;
      scenario = next;
      smaller = true;
      break;
    }
  }
  return scenario;
}

std::string Report(const Scenario& scenario, const Failure& failure) {
  const bool as_it_is = Setting("FIRST_FAILURE", 0) != 0;
  const Scenario small = as_it_is ? scenario : Shrink(scenario, failure.property);
  const auto again = RunOnce(small);
  return StrCat("seed ", scenario.seed, ": ", failure.property, ": ", failure.detail,
                "\n  smaller: ", again ? again->detail : "", "\n  replay: REPLAY='", ToText(small),
                "' build/test/sim_test --gtest_filter='*Replay*'");
}

// Runs `seeds` scenarios from FIRST_SEED on, with `change` made to each.
void RunSeeds(
    int64_t seeds, const std::function<void(Scenario*)>& change = [](Scenario*) {}) {
  const int64_t first = Setting("FIRST_SEED", 1);
  const size_t failures = Setting("FIRST_FAILURE", 0) ? 1 : 3;
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<int64_t> next{first};
  std::mutex mutex;
  std::vector<std::string> reports;
  Summary total;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      for (int64_t seed; (seed = next++) < first + seeds;) {
        Scenario scenario = Draw(seed);
        change(&scenario);
        Simulation simulation(scenario);
        const auto failure = simulation.Run();
        const std::string report = failure ? Report(scenario, *failure) : "";
        const std::lock_guard lock(mutex);
        if (failure) reports.push_back(report);
        if (reports.size() >= failures) next = first + seeds;
        total.frames += simulation.summary().frames;
        total.diffs_merged += simulation.summary().diffs_merged;
        total.resends += simulation.summary().resends;
        total.takeovers += simulation.summary().takeovers;
        total.incarnations_lost += simulation.summary().incarnations_lost;
        total.views += simulation.summary().views;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::string& report : reports) ADD_FAILURE() << report;
  std::cout << seeds << " seeds: " << total.frames << " frames, " << total.diffs_merged
            << " diffs merged, " << total.resends << " resent, " << total.views << " views, "
            << total.takeovers << " chunks taken over, " << total.incarnations_lost
            << " incarnations lost\n";
  // The simulation must exchange diffs; otherwise the test proves nothing.
  EXPECT_GT(total.diffs_merged, 0u);
}

TEST(Simulation, HoldsAllPropertiesForManySeeds) { RunSeeds(Setting("SEEDS", 10'000)); }

TEST(Simulation, HoldsAllPropertiesNearTheLimitsOfCountersForManySeeds) {
  RunSeeds(Setting("SEEDS", 10'000) / 10, [](Scenario* scenario) { scenario->near_limits = true; });
}

// Found by a long run: small frames alone pass between the coordinator 0 and node 2, and 0 does not
// hear 3. Node 1 knows, and node 2 has to accept a view without 0 although it hears it.
TEST(Simulation, EndsInAViewOfWholeLinksWhereOneNodeKnowsOfAllBrokenOnes) {
  const char* const text =
      "seed=2611350810,nodes=4,late=0,chunks=10,codec=0,choice=0,threshold=8,share=1,direct=0,"
      "linger=0,wild=0,active=122,busy=0.13518679141998291,slots=64,throttled=0,damping=0,loss=0,"
      "uneven_loss=0,duplicate=0,corrupt=0,delay_min=1,delay_max=1,rate=64,queue=4096,"
      "event=b:94:3:1000000:1,event=m:101:0:1000000:4,event=m:101:2:1000000:1";
  const auto failure = Simulation(Parse(text)).Run();
  EXPECT_FALSE(failure) << failure->property << ": " << failure->detail;
}

TEST(Simulation, Replay) {
  const char* text = std::getenv("REPLAY");
  if (!text) return;
  Simulation simulation(Parse(text));
  simulation.Trace();
  const auto failure = simulation.Run();
  std::cout << simulation.Describe();
  EXPECT_FALSE(failure) << failure->property << ": " << failure->detail;
}

}  // namespace
}  // namespace millrace::sim
