// Convex problems with known optima, over links that carry from a hundredth to ten times the
// traffic of training. Nodes that receive each other's steps late must not overshoot together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exchange/protocol/damping.h"
#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

// Minimises sum h (w - 1)^2 / 2 from w = 0 by gradient descent with momentum; all nodes step in
// turn. `steps[i]` is the rate times the curvature h of the weights i + n * steps.size().
struct Problem {
  uint16_t nodes = 2;
  double speed = 1;  // link speed: sweeps that a node's link carries per step of the node
  float momentum = 0;
  std::vector<float> steps;
  bool damping = true;
};

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
  options.damping = problem.damping;
  options.seed = test::Seed();
  const double frames = problem.speed * static_cast<double>(chunks);
  options.faults.rate = std::max<int64_t>(static_cast<int64_t>(frames), 8 + 2 * problem.nodes);
  // Steps per tick.
  const int64_t often =
      std::max<int64_t>(1, std::lround(static_cast<double>(options.faults.rate) / frames));
  Cluster cluster(options);
  std::vector<std::vector<float>> velocity(problem.nodes, std::vector<float>(options.size));
  Course course;
  for (int64_t round = 0; round < rounds; ++round) {
    cluster.Tick(
        [&](uint16_t node, std::vector<float>& weights) {
          for (int64_t step = 0; step < often; ++step) {
            for (size_t i = 0; i < weights.size(); ++i) {
              float& v = velocity[node][i];
              v = problem.momentum * v - problem.steps[i % problem.steps.size()] * (weights[i] - 1);
              weights[i] += v;
            }
          }
        },
        often);
    for (uint16_t node = 0; node < problem.nodes; ++node) {
      for (const float w : cluster[node].weights) {
        course.farthest = std::max(course.farthest, std::fabs(double{w} - 1));
      }
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
