// Gossip with push-sum masses (Blot, Picard, Cord, Thome: "Gossip training for deep learning",
// 2016): worker i sends its weights with half of its mass, and keeps the other half. The receiver j
// merges
//   w_j = (m_j w_j + m w) / (m_j + m);   m_j = m_j + m
// A merge leaves the mean of all weights, weighted by masses, as it is. What is lost on the way
// costs mass alone.
#ifndef MILLRACE_STRATEGY_PUSH_SUM_H_
#define MILLRACE_STRATEGY_PUSH_SUM_H_

#include <cstdint>

namespace millrace::inline strategy {

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

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_PUSH_SUM_H_
