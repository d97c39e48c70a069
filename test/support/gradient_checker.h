// Compares a layer's Backward with numerical derivatives of its Forward.
//
// The objective is E = sum over all values of all tops of w * top with random
// weights w, so dE/dtop = w. For sampled elements x of bottoms and parameters,
// dE/dx is estimated by central differences with two steps h and h/2 and
// Richardson's extrapolation, (4 D(h/2) - D(h)) / 3, whose error is O(h^4).
//
// Kinks (of ReLU, of maxima) are recognised from Forward alone: where the
// function is smooth, D(h) = D(h/2) and the jump of the one-sided slopes halves
// with h, both to O(h^2). An element for which this fails is left out, and the
// check fails if too many are.
#ifndef MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_
#define MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_

#include <string>
#include <vector>

#include "nn/layer.h"

namespace millrace::test {

struct GradientCheck {
  double step = 0.02;       // h
  double tolerance = 3e-3;  // of a derivative, relative to the largest in its blob
  int samples = 24;         // elements tried per blob; all of a smaller blob
  double most_kinks = 0.4;  // share of the sampled elements that may be left out
  uint64_t seed = 1;        // of the weights w and the samples
  // Scales w of top[i]; 0 for a top that gives no gradient. Default: all 1.
  std::vector<double> top_scale;
  // Default: what the layer allows.
  std::vector<bool> propagate_down;
};

// `layer` has been set up and shaped for the blobs, and bottoms and parameters
// hold values. The layer may work in place. Returns "" if all of this holds,
// else one line that says what does not:
//   - the gradients asked for are right, and nothing of what diff() held before
//     is left in them;
//   - diff() of bottoms that were not asked for is untouched, as is that of
//     parameters that are not wanted;
//   - with Param::has_gradient set, a second Backward doubles a parameter's
//     gradient;
//   - Backward changes no values of bottoms and parameters.
// Leaves the values of bottoms and parameters as they were.
std::string CheckGradients(Layer* layer, const Blobs& bottom, const Blobs& top,
                           const GradientCheck& check = {});

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_
