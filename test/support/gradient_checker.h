// Compares a layer's Backward with numerical derivatives of its Forward.
//
// The objective is E = sum over all values of all tops of w * top with random weights w, so
// dE/dtop = w. For sampled elements x of bottoms and parameters, dE/dx is estimated by central
// differences with the steps h and h/2 and Richardson extrapolation, (4 D(h/2) - D(h)) / 3, whose
// error is O(h^4).
//
// Kinks (of ReLU, of maxima) are detected from Forward alone. Where the function is smooth,
// D(h) = D(h/2) and the jump of the one-sided slopes halves with h, both to O(h^2). An element that
// violates this is skipped; the check fails if too many elements are skipped.
#ifndef MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_
#define MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_

#include <string>
#include <vector>

#include "millrace/layer.h"

namespace millrace::test {

struct GradientCheck {
  double step = 0.02;       // h
  double tolerance = 3e-3;  // of a derivative, relative to the largest one of its blob
  int samples = 24;         // elements per blob; a smaller blob is tested completely
  double most_kinks = 0.4;  // largest share of sampled elements that may be skipped
  uint64_t seed = 1;        // of the weights w and of the samples
  // Scales w of top[i]; 0 for a top without gradient. Default: all 1.
  std::vector<double> top_scale;
  // Default: every bottom for which the layer supports it.
  std::vector<bool> propagate_down;
};

// `layer` is set up and shaped for the blobs; bottoms and parameters hold values. The layer may
// work in place. Returns "" if all of these conditions hold, otherwise one line that names the
// failed one:
// - the requested gradients are correct and contain nothing of the earlier content of diff();
// - diff() of bottoms without a requested gradient, and of parameters that need none, is unchanged;
// - with Param::has_gradient set, a second Backward doubles a parameter's gradient;
// - parameters that are not wanted, on entry or for once, get none;
// - Backward does not change values of bottoms and parameters.
// On return, values of bottoms and parameters are as before.
std::string CheckGradients(Layer* layer, const Blobs& bottom, const Blobs& top,
                           const GradientCheck& check = {});

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_GRADIENT_CHECKER_H_
