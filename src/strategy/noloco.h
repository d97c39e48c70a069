// The merge rule "noloco" of the strategy "gossip": pairs take a step of an outer optimizer in
// place of their mean (Kolehmainen, Blagoev, Donaghy, Ersoy, Nies: "NoLoCo: No-all-reduce low
// communication training method for large models", 2025, with groups of two). Solver i keeps slow
// weights s_i, its weights after its last merge, and their velocity v_i. When i and j merge,
//   v_i = momentum v_i + rate mean(w - s) - pull (s_i - mean(s))
//   s_i = w_i = s_i + v_i
// with means over i and j, as of before the merge; and so does j. The term with `pull` brings the
// solvers together, which nothing else does. Without momentum, with rate 1 and pull 1, it is the
// mean of w_i and w_j.
#ifndef MILLRACE_STRATEGY_NOLOCO_H_
#define MILLRACE_STRATEGY_NOLOCO_H_

#include <optional>

#include "proto/caffe.pb.h"

namespace millrace::inline strategy {

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

#endif  // MILLRACE_STRATEGY_NOLOCO_H_
