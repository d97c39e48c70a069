// Convex problems with known optima, over links that carry from a hundredth to ten times the
// traffic of training. Nodes that receive each other's steps late must not overshoot together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exchange/protocol/damping.h"
#include "solver/look_ahead.h"
#include "test/sim/cluster.h"
#include "test/sim/tree_cluster.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

// Minimises sum h (w - 1)^2 / 2 from w = 0 by gradient descent with momentum; all nodes step in
// turn. `steps[i]` is the rate times the curvature h of the weights i + n * steps.size().
struct Problem {
  uint16_t nodes = 2;
  double speed = 1;  // link speed: sweeps that a node's link carries per step of the node
  float momentum = 0;
  float look_ahead = kLookAheadOfSums;  // solver/look_ahead.h
  std::vector<float> steps;
  bool damping = true;
  // Above 0: each node trains on weights of its own, and merges them after so many steps.
  int64_t period = 0;
  float noise = 0;  // standard deviation of (w - 1) in the gradient
  // Nodes take the mean of their progress, at as many times the rate.
  bool averages = false;
};

// The solver of one node.
class Descent {
 public:
  Descent(const Problem& problem, uint16_t node, int64_t size)
      : problem_(problem),
        rng_(test::Seed(), {node}),
        velocity_(size),
        own_(problem.period > 0 ? size : 0),
        fetched_(own_.size()),
        steps_(node) {}  // nodes merge at different times

  // Makes a step. Returns the number of steps that `shared` lacks.
  int64_t Step(std::vector<float>* shared) {
    std::vector<float>& weights = problem_.period > 0 ? own_ : *shared;
    const float m = problem_.momentum;
    const auto scale = static_cast<float>(problem_.averages ? problem_.nodes : 1);
    for (size_t i = 0; i < weights.size(); ++i) {
      float error = weights[i] - 1;
      if (problem_.noise > 0) error += problem_.noise * rng_.Gaussian();
      const float v = m * velocity_[i] - scale * problem_.steps[i % problem_.steps.size()] * error;
      weights[i] += v + problem_.look_ahead * m * (v - velocity_[i]);
      velocity_[i] = v;
    }
    if (problem_.period == 0) return 0;
    if (++steps_ % problem_.period != 0) return ++unmerged_;
    for (size_t i = 0; i < own_.size(); ++i) {
      (*shared)[i] += own_[i] - fetched_[i];
      own_[i] = fetched_[i] = (*shared)[i];
    }
    return unmerged_ = 0;
  }

 private:
  const Problem& problem_;
  Rng rng_;
  std::vector<float> velocity_, own_, fetched_;
  int64_t steps_, unmerged_ = 0;
};

// The distance of the weight that is farthest from the optimum.
double FarthestOf(const std::vector<float>& weights) {
  double farthest = 0;
  for (const float w : weights) farthest = std::max(farthest, std::fabs(double{w} - 1));
  return farthest;
}

struct Course {
  double farthest = 0;  // maximum distance of any weight on any node from the optimum, 1
  double at_end = 0;    // the same after all progress has been merged
  double replicas = 0;  // maximum difference between two nodes' weights at the end
};

Course Descend(const Problem& problem, int64_t rounds) {
  // A tick carries at least 8 + 2 * nodes frames. Slower links are simulated by several steps
  // per tick.
  const int64_t chunks = std::max<int64_t>(2 * problem.nodes, problem.speed < 1 ? 40 : 8);
  ClusterOptions options{.nodes = problem.nodes};
  options.chunk_floats = static_cast<int64_t>(problem.steps.size());
  options.size = chunks * options.chunk_floats;
  options.damping = problem.damping && !problem.averages;
  if (problem.averages) options.rule.name = "average";
  options.seed = test::Seed();
  const double frames = problem.speed * static_cast<double>(chunks);
  options.faults.rate = std::max<int64_t>(static_cast<int64_t>(frames), 8 + 2 * problem.nodes);
  // Steps per tick.
  const int64_t often =
      std::max<int64_t>(1, std::lround(static_cast<double>(options.faults.rate) / frames));
  Cluster cluster(options);
  std::vector<Descent> descents;
  for (uint16_t node = 0; node < problem.nodes; ++node) {
    descents.emplace_back(problem, node, options.size);
  }
  Course course;
  for (int64_t round = 0; round < rounds; ++round) {
    cluster.Tick(
        [&](uint16_t node, std::vector<float>& weights) {
          for (int64_t step = 0; step < often; ++step) {
            cluster[node].unmerged = static_cast<uint64_t>(descents[node].Step(&weights));
          }
        },
        often);
    for (uint16_t node = 0; node < problem.nodes; ++node) {
      course.farthest = std::max(course.farthest, FarthestOf(cluster[node].weights));
    }
    if (!(course.farthest < 1e3)) return course;
  }
  cluster.Flush();
  for (size_t i = 0; i < cluster[0].weights.size(); ++i) {
    course.at_end = std::max(course.at_end, std::fabs(double{cluster[0].weights[i]} - 1));
    for (uint16_t node = 1; node < problem.nodes; ++node) {
      const double apart = std::fabs(double{cluster[node].weights[i]} - cluster[0].weights[i]);
      course.replicas = std::max(course.replicas, apart);
    }
  }
  return course;
}

constexpr uint16_t kNodes[] = {2, 3, 5, 16, 64};
constexpr double kSpeeds[] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10};

// A single node approaches the optimum with every step if rate times curvature is below 1.
// Several nodes never get farther from it than at the start, at any link speed. At the end all
// replicas are equal.
TEST(Convex, NodesNeverGetFartherFromTheOptimumHoweverSlowTheLinks) {
  for (const uint16_t nodes : kNodes) {
    for (const double speed : kSpeeds) {
      const int64_t rounds = nodes < 64 ? 600 : 150;  // 64 nodes take long to simulate
      const Course course =
          Descend({.nodes = nodes, .speed = speed, .steps = {0.01f, 0.1f, 0.3f, 0.9f}}, rounds);
      EXPECT_LE(course.farthest, 1) << nodes << " nodes, speed " << speed;
      EXPECT_LE(course.at_end, nodes < 64 ? 0.05 : 0.5) << nodes << " nodes, speed " << speed;
      EXPECT_EQ(course.replicas, 0) << nodes << " nodes, speed " << speed;
    }
  }
}

// Counterpart of the test above: without damping, stale steps diverge.
TEST(Convex, StaleStepsThatAreAddedWithoutDampingDiverge) {
  for (const uint16_t nodes : {5, 16}) {
    const Course course = Descend(
        {.nodes = nodes, .speed = 0.1, .steps = {0.01f, 0.1f, 0.3f, 0.9f}, .damping = false}, 1000);
    EXPECT_GT(course.farthest, 100) << nodes << " nodes";
  }
}

// Solvers that merge weights of their own seldom are as stale as those behind slow links.
TEST(Convex, SolversOnWeightsOfTheirOwnDoNotOvershootTogether) {
  for (const uint16_t nodes : {2, 5, 16}) {
    for (const int64_t period : {5, 50}) {
      Problem problem{.nodes = nodes, .speed = 3, .steps = {0.01f, 0.1f, 0.3f, 0.9f}};
      problem.period = period;
      const Course course = Descend(problem, 600);
      EXPECT_LE(course.farthest, 2) << nodes << " nodes, period " << period;
      EXPECT_LE(course.at_end, 0.05) << nodes << " nodes, period " << period;
      EXPECT_EQ(course.replicas, 0) << nodes << " nodes, period " << period;
    }
  }
  Problem undamped{.nodes = 5, .speed = 3, .steps = {0.3f}, .damping = false};
  undamped.period = 50;
  EXPECT_GT(Descend(undamped, 600).farthest, 100);
}

// With the solvers' look-ahead momentum of 0.9, one node converges for steps up to 1.36, and
// several do for two thirds of that at every link speed. docs/exchange.md has the limits.
TEST(Convex, NodesWithMomentumConverge) {
  for (const uint16_t nodes : {2, 3, 5, 16}) {
    for (const double speed : kSpeeds) {
      const Course course = Descend(
          {.nodes = nodes, .speed = speed, .momentum = 0.9f, .steps = {0.01f, 0.1f, 0.3f, 0.9f}},
          600);
      EXPECT_LE(course.farthest, 6) << nodes << " nodes, speed " << speed;
      EXPECT_LE(course.at_end, 0.05) << nodes << " nodes, speed " << speed;
      EXPECT_EQ(course.replicas, 0) << nodes << " nodes, speed " << speed;
    }
  }
}

TEST(Convex, NodesWithMomentumAndNoisyGradientsStayNearTheOptimum) {
  for (const uint16_t nodes : {2, 5, 16}) {
    for (const double speed : kSpeeds) {
      Problem problem{
          .nodes = nodes, .speed = speed, .momentum = 0.9f, .steps = {0.01f, 0.1f, 0.3f}};
      problem.noise = 0.1f;
      const Course course = Descend(problem, 600);
      EXPECT_LE(course.farthest, 3) << nodes << " nodes, speed " << speed;
      EXPECT_LE(course.at_end, 1) << nodes << " nodes, speed " << speed;
    }
  }
}

// What nodes do adds up where they average at as many times the rate: they come to the optimum as
// soon as one solver at the sum of their rates. Damped addition is late with what it holds back,
// and plain addition bears only steps of which the sum is short.
TEST(Convex, NodesThatAverageLearnAsOneAtTheSumOfTheirRates) {
  const auto descend = [](uint16_t nodes, double speed, float sum, bool averages, bool damping) {
    return Descend({.nodes = nodes,
                    .speed = speed,
                    .momentum = 0.9f,
                    .look_ahead = averages ? kLookAheadOfMeans : kLookAheadOfSums,
                    .steps = {sum / static_cast<float>(nodes)},
                    .damping = damping,
                    .averages = averages},
                   200);
  };
  for (const uint16_t nodes : {3, 4, 8, 16}) {
    for (const double speed : {1.0, 3.0, 10.0}) {
      for (const float sum : {0.004f, 0.04f, 0.1f, 0.2f, 0.3f}) {
        SCOPED_TRACE(StrCat(nodes, " nodes, speed ", speed, ", sum ", sum));
        const Course course = descend(nodes, speed, sum, true, false);
        EXPECT_LE(course.farthest, 1);
        EXPECT_LE(course.at_end, 1e-4);
        EXPECT_EQ(course.replicas, 0);
      }
    }
    for (const double speed : {3.0, 10.0}) {
      EXPECT_LE(descend(nodes, speed, 0.9f, true, false).at_end, 1e-4) << nodes << ", " << speed;
    }
    EXPECT_GT(descend(nodes, 3, 0.04f, false, true).at_end, 0.001);
    EXPECT_GT(descend(nodes, 1, nodes == 16 ? 0.2f : 0.3f, false, false).farthest, 100);
  }
}

// Where each node's own steps stand for those of the others until they are averaged, the whole
// look-ahead takes them too far.
TEST(Convex, NodesThatAverageBearLongerStepsIfTheyLookLessFarAhead) {
  const auto farthest = [](float look_ahead) {
    return Descend({.nodes = 3,
                    .speed = 3,
                    .momentum = 0.9f,
                    .look_ahead = look_ahead,
                    .steps = {0.3f},
                    .averages = true},
                   200)
        .farthest;
  };
  EXPECT_LE(farthest(kLookAheadOfMeans), 2);
  EXPECT_GT(farthest(kLookAheadOfSums), 100);
}

// On fast links, too, several nodes bear nearly the steps that one node bears. Without damping they
// diverge. docs/exchange.md has the limits.
TEST(Convex, NodesWithMomentumBearLongStepsOnFastLinks) {
  const auto farthest = [](uint16_t nodes, double speed, float step, bool damping = true) {
    return Descend({.nodes = nodes,
                    .speed = speed,
                    .momentum = 0.9f,
                    .steps = {step},
                    .damping = damping},
                   600)
        .farthest;
  };
  EXPECT_LE(farthest(1, 3, 1.1f), 1.5);
  for (const double speed : {1.0, 3.0, 10.0}) {
    for (const uint16_t nodes : {2, 3, 5, 16}) {
      EXPECT_LE(farthest(nodes, speed, 0.9f), nodes == 2 ? 6 : 1.5) << nodes << ", " << speed;
      EXPECT_LE(farthest(nodes, speed, 1.1f), nodes == 2 ? 15 : 5) << nodes << ", " << speed;
    }
  }
  for (const uint16_t nodes : {2, 3, 5, 16}) EXPECT_GT(farthest(nodes, 3, 0.9f, false), 100);
}

// The longest distance of a weight from the optimum on two nodes with a GPU each. Replicas are a
// chain: those of the GPUs at its ends, those of the hosts between. In each tick the solvers of
// `trains` make `often` steps.
double FarthestOfLinkedGpus(float step, uint64_t often, const std::vector<bool>& trains,
                            bool links_damp) {
  const Problem problem{.momentum = 0.9f, .steps = {step}};
  TreeOptions options;
  options.shape = {4, {{0, 1}, {1, 2}, {2, 3}}};
  options.damps = {links_damp, true, links_damp};
  options.seed = test::Seed();
  const int64_t size = options.chunks * (int64_t{options.shape.nodes} + 1);
  std::vector<Descent> descents;
  for (uint16_t node = 0; node < options.shape.nodes; ++node) {
    descents.emplace_back(problem, node, size);
  }
  options.solver = [&](uint16_t node, std::vector<float>& weights) -> uint64_t {
    if (!trains[node]) return 0;
    for (uint64_t i = 0; i < often; ++i) descents[node].Step(&weights);
    return often;
  };
  TreeCluster cluster(options);
  for (uint16_t node = 0; node < options.shape.nodes; ++node) cluster.Start(node);
  double farthest = 0;
  for (int64_t tick = 0; tick < 2000 && farthest < 1e3; ++tick) {
    EXPECT_FALSE(cluster.Run(1));
    for (uint16_t node = 0; node < options.shape.nodes; ++node) {
      farthest = std::max(farthest, FarthestOf(cluster.weights(node)));
    }
  }
  return farthest;
}

// What a GPU computes reaches another node's GPU by three segments, of which each makes it older.
TEST(Convex, GpusBehindLinksThatDampConverge) {
  const std::vector<bool> gpus{true, false, false, true}, all(4, true);
  for (const std::vector<bool>& trains : {gpus, all}) {
    for (const uint64_t often : {1, 3, 10}) {
      for (const float step : {0.02f, 0.05f, 0.1f, 0.3f}) {
        EXPECT_LE(FarthestOfLinkedGpus(step, often, trains, true), 1.5) << often << ", " << step;
      }
    }
  }
  EXPECT_GT(FarthestOfLinkedGpus(0.1f, 1, gpus, false), 100);
  EXPECT_GT(FarthestOfLinkedGpus(0.02f, 10, all, false), 100);
}

// With small curvature the steps of all nodes add up, so that n nodes need much less time than
// one.
TEST(Convex, DampedNodesAreFasterThanOneWhereStepsAreSmall) {
  constexpr float kStep = 0.001f;
  constexpr int64_t kSteps = 400;
  const double alone = std::pow(1 - double{kStep}, kSteps);
  for (const uint16_t nodes : {2, 3, 5}) {
    const Course course = Descend({.nodes = nodes, .speed = 1, .steps = {kStep}}, kSteps);
    EXPECT_LT(course.at_end, std::pow(alone, 0.6 * nodes)) << nodes << " nodes";
  }
}

}  // namespace
}  // namespace millrace::sim
