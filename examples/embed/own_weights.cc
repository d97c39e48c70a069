// One node of a cluster that learns y = 2 x0 - x1 + 0.5 by stochastic gradient descent:
//   own_weights TOPOLOGY.prototxt NODE
// Every node draws its own examples. The nodes exchange their updates while they compute.
#include <millrace/cluster.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>

namespace {

constexpr int kIterations = 20000;  // of all nodes together
constexpr int kBatch = 1000;        // examples per iteration
constexpr float kRate = 0.01f;

alignas(64) std::array<float, 3> weights{};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: own_weights TOPOLOGY.prototxt NODE\n");
    return 1;
  }
  try {
    millrace::ClusterMember member({.topology = argv[1], .node = argv[2], .layout = 1}, weights);
    member.Join();
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    while (member.iterations() < kIterations) {
      std::array<float, 3> update{};
      for (int i = 0; i < kBatch; ++i) {
        const float x0 = normal(random), x1 = normal(random);
        const float error = weights[0] * x0 + weights[1] * x1 + weights[2] - (2 * x0 - x1 + 0.5f);
        update[0] -= kRate / kBatch * error * x0;
        update[1] -= kRate / kBatch * error * x1;
        update[2] -= kRate / kBatch * error;
      }
      member.Add(update);
    }
    member.Finish();
    std::printf("%s: %.3f %.3f %.3f\n", argv[2], weights[0], weights[1], weights[2]);
    const bool learned = std::abs(weights[0] - 2) < 0.01f && std::abs(weights[1] + 1) < 0.01f &&
                         std::abs(weights[2] - 0.5f) < 0.01f;
    return learned ? 0 : 1;
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "own_weights: %s\n", error.what());
    return 1;
  }
}
