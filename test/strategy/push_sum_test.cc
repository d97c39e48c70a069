// Gossip with masses: the weighted mean stays, and weights come together.
#include "strategy/gossip_rules.h"

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

struct Peer {
  std::vector<float> weights;
  double mass = 1;
};

double MeanOf(const std::vector<Peer>& peers, size_t element) {
  double sum = 0, mass = 0;
  for (const Peer& peer : peers) {
    sum += peer.mass * peer.weights[element];
    mass += peer.mass;
  }
  return sum / mass;
}

TEST(PushSum, KeepsTheMeanByMassAndBringsWeightsTogether) {
  constexpr size_t kPeers = 5, kWeights = 3;
  Rng rng(Seed(), {5});
  std::vector<Peer> peers(kPeers);
  for (Peer& peer : peers) {
    for (size_t i = 0; i < kWeights; ++i) peer.weights.push_back(rng.Gaussian());
  }
  std::vector<double> means;
  for (size_t i = 0; i < kWeights; ++i) means.push_back(MeanOf(peers, i));
  for (int round = 0; round < 200; ++round) {
    const size_t from = rng.Below(kPeers), to = (from + 1 + rng.Below(kPeers - 1)) % kPeers;
    const double mass = TakeHalf(&peers[from].mass);
    MergeByMass(mass, kWeights, peers[from].weights.data(), &peers[to].mass,
                peers[to].weights.data());
  }
  double masses = 0;
  for (const Peer& peer : peers) masses += peer.mass;
  EXPECT_NEAR(masses, kPeers, 1e-9);
  for (size_t i = 0; i < kWeights; ++i) {
    EXPECT_NEAR(MeanOf(peers, i), means[i], 1e-4);
    for (const Peer& peer : peers) EXPECT_NEAR(peer.weights[i], means[i], 1e-2);
  }
}

TEST(PushSum, TakesTheWeightsOfBothByTheirMasses) {
  double mass = 1;
  float weight = 8;
  const float arrived = 4;
  MergeByMass(3, 1, &arrived, &mass, &weight);
  EXPECT_EQ(weight, 5);
  EXPECT_EQ(mass, 4);
}

TEST(PushSum, MassesOfZeroChangeNothing) {
  double mass = 0;
  float weight = 8;
  const float arrived = 4;
  MergeByMass(0, 1, &arrived, &mass, &weight);
  EXPECT_EQ(weight, 8);
  EXPECT_EQ(mass, 0);
}

}  // namespace
}  // namespace millrace::test
