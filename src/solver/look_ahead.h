// How far solvers look ahead of weights that others change while they compute a gradient
// (`look_ahead` of UpdateRule::Apply): the share of the momentum of one step.
//
// Where the steps of all add up, they look ahead by the whole momentum (sgd.h). Nodes that average
// their progress at as many times the learning rate take their own steps in full until these are
// averaged, so that these stand for the steps of the others. The whole look-ahead then takes them
// too far, and without any they resonate with exchanges: docs/exchange.md, "Averages", has the
// curvatures that they bear.
#ifndef MILLRACE_SOLVER_LOOK_AHEAD_H_
#define MILLRACE_SOLVER_LOOK_AHEAD_H_

#include <functional>

#include "weights/iteration_clock.h"

namespace millrace::inline solver {

inline constexpr float kLookAheadOfSums = 1, kLookAheadOfMeans = 0.3f;

// For a solver among those of `clock`, whose steps add up. `of_peers`: for other machines that
// train the weights at present, 0 if there are none; null: there are never any.
inline float LookAheadOf(const IterationClock& clock, const std::function<float()>& of_peers) {
  if (clock.solvers() > 1) return kLookAheadOfSums;
  return of_peers ? of_peers() : 0;
}

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_LOOK_AHEAD_H_
