// How far nodes that average their progress should look ahead: a model of one weight, without an
// exchange.
#include "solver/look_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace millrace::solver {
namespace {

// Times are in iterations of a node.
struct Nodes {
  int count = 4;
  double delay = 0;  // until a step is in the weights of all others; it is in the mean after a half
  double jitter = 0;  // standard deviation of the time of an iteration
  double momentum = 0.9;
};

// Whether the nodes come from 1 to the optimum, 0, if the sum of their learning rates times the
// curvature is `step`. Each computes a gradient at the mean that it knows plus its own steps that
// this mean lacks, and takes a step by it an iteration later.
bool Converge(const Nodes& nodes, double look_ahead, double step) {
  constexpr double kEnd = 250;
  struct Node {
    double velocity = 0, own = 0, gradient_at = 1;
  };
  struct Event {
    enum { kStep, kIsInMean, kIsKnown } kind;
    int node;
    double progress, mean;
  };
  Rng rng(1, {static_cast<uint64_t>(nodes.count)});
  std::vector<Node> all(nodes.count);
  std::multimap<double, Event> events;
  for (int i = 0; i < nodes.count; ++i) {
    events.emplace(static_cast<double>(i) / nodes.count, Event{Event::kStep, i, 0, 0});
  }
  double mean = 1, known = 1, farthest = 0;
  while (true) {
    const auto [now, event] = *events.begin();
    if (now > kEnd) return farthest < 0.01;
    events.erase(events.begin());
    Node& node = all[event.node];
    if (event.kind == Event::kStep) {
      const double next = nodes.momentum * node.velocity - step * node.gradient_at;
      const double progress = next + look_ahead * nodes.momentum * (next - node.velocity);
      node.velocity = next;
      node.own += progress;
      node.gradient_at = known + node.own;
      events.emplace(now + nodes.delay / 2, Event{Event::kIsInMean, event.node, progress, 0});
      events.emplace(now + 1 + nodes.jitter * rng.Gaussian(),
                     Event{Event::kStep, event.node, 0, 0});
    } else if (event.kind == Event::kIsInMean) {
      mean += event.progress / nodes.count;
      events.emplace(now + nodes.delay / 2,
                     Event{Event::kIsKnown, event.node, event.progress, mean});
    } else {
      known = event.mean;
      node.own -= event.progress;
    }
    if (now > kEnd - 50) farthest = std::max(farthest, std::fabs(mean));
    if (std::fabs(mean) > 1e3) return false;
  }
}

// The largest step, in tenths and up to 4, such that the nodes converge with all steps up to it.
double Limit(const Nodes& nodes, double look_ahead) {
  double step = 0;
  while (step < 4 && Converge(nodes, look_ahead, step + 0.1)) step += 0.1;
  return step;
}

// One node alone takes steps of up to 2 (1 + momentum) without look-ahead.
TEST(LookAhead, ModelOfOneNodeHasTheLimitOfMomentum) {
  EXPECT_NEAR(Limit({.count = 1}, 0), 3.8, 0.1);
  EXPECT_NEAR(Limit({.count = 1}, 1), 1.36, 0.1);
}

// The table of docs/exchange.md#averages.
TEST(LookAhead, OfMeansBearsLongerStepsThanTheWholeWhereExchangesAreFresh) {
  for (const int count : {2, 3, 4, 5, 8, 16}) {
    for (const double jitter : {0.01, 0.05}) {
      for (const double delay : {0.05, 0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0}) {
        SCOPED_TRACE(StrCat(count, " nodes, ", delay, " iterations, jitter ", jitter));
        const Nodes nodes{count, delay, jitter};
        const double means = Limit(nodes, kLookAheadOfMeans), whole = Limit(nodes, 1);
        EXPECT_GE(means, delay < 1 ? 0.95 : 0.55);
        EXPECT_GE(means, (delay < 1 ? 1.5 : 1.1) * whole);
      }
    }
  }
}

TEST(LookAhead, OfMeansDoesNotResonateWithExchanges) {
  for (const double momentum : {0.5, 0.9}) {
    for (const double delay : {0.5, 0.75, 0.9}) {
      EXPECT_GE(Limit({4, delay, 0.01, momentum}, kLookAheadOfMeans), 0.95) << delay;
    }
  }
  EXPECT_LE(Limit({4, 0.75, 0}, 0), 0.3);
  EXPECT_LE(Limit({4, 0.75, 0}, 0.1), 0.4);
}

}  // namespace
}  // namespace millrace::solver
