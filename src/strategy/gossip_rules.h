// The rules by which pairs of solvers average their weights (docs/learning.md).
#ifndef MILLRACE_STRATEGY_GOSSIP_RULES_H_
#define MILLRACE_STRATEGY_GOSSIP_RULES_H_

#include <cstdint>
#include <optional>

#include "proto/caffe.pb.h"

namespace millrace::inline strategy {

// Gossip with push-sum masses (Blot, Picard, Cord, Thome: "Gossip training for deep learning",
// 2016): worker i sends its weights with half of its mass, and keeps the other half. The receiver j
// merges
//   w_j = (m_j w_j + m w) / (m_j + m);   m_j = m_j + m
// A merge leaves the mean of all weights, weighted by masses, as it is. What is lost on the way
// costs mass alone.
//
// Returns the mass to send, and keeps the rest in `mass`.
inline double TakeHalf(double* mass) { return *mass /= 2; }

// Merges `arrived`, with mass `of_arrived`, into `weights`, whose mass is `*mass`; both have
// `count` elements. Masses that are all 0 leave the weights as they are.
inline void MergeByMass(double of_arrived, int64_t count, const float* arrived, double* mass,
                        float* weights) {
  const double sum = *mass + of_arrived;
  if (!(sum > 0)) return;
  const auto share = static_cast<float>(of_arrived / sum);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) weights[i] += share * (arrived[i] - weights[i]);
  *mass = sum;
}

// The merge rule "noloco" of the strategy "gossip": pairs take a step of an outer optimizer in
// place of their mean (Kolehmainen, Blagoev, Donaghy, Ersoy, Nies: "NoLoCo: No-all-reduce low
// communication training method for large models", 2025, with groups of two). Solver i keeps slow
// weights s_i, its weights after its last merge, and their velocity v_i. When i and j merge,
//   v_i = momentum v_i + rate mean(w - s) - pull (s_i - mean(s))
//   s_i = w_i = s_i + v_i
// with means over i and j, as of before the merge; and so does j. The term with `pull` brings the
// solvers together, which nothing else does. Without momentum, with rate 1 and pull 1, it is the
// mean of w_i and w_j.
struct NoLoCo {
  float momentum = 0, rate = 0, pull = 0;

  // mean(w - s) and mean(s) of one weight, of which solvers i and j have w and s.
  struct Means {
    float gain, slow;
  };
  static Means MeansOf(float w_i, float s_i, float w_j, float s_j) {
    return {0.5f * ((w_i - s_i) + (w_j - s_j)), 0.5f * (s_i + s_j)};
  }
  // Changes one weight of a solver.
  void Step(const Means& mean, float* weight, float* slow, float* velocity) const {
    *velocity = momentum * *velocity + rate * mean.gain - pull * (*slow - mean.slow);
    *slow += *velocity;
    *weight = *slow;
  }
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_GOSSIP_RULES_H_
