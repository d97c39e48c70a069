#include "solver/sgd.h"

#include <glog/logging.h>

#include <cmath>

namespace millrace {

SgdRule::LookAhead SgdRule::LookAheadOf(const caffe::SolverParameter& param) {
  if (param.type() == "Nesterov") return LookAhead::kAlways;
  return param.momentum_lookahead() ? LookAhead::kTogether : LookAhead::kNever;
}

SgdRule::SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
                 int64_t size, Queue& queue)
    : UpdateRule(params, size, 1, queue),
      ahead_(LookAheadOf(param)),
      momentum_(param.momentum()),
      weight_decay_(param.weight_decay()),
      clip_gradients_(param.clip_gradients()),
      normalization_(1.0f / static_cast<float>(param.iter_size())),
      l1_(param.regularization_type() == "L1") {}

float SgdRule::ClipScale(const float* gradients) {
  if (clip_gradients_ < 0) return 1;
  double squares = 0;
  for (const UpdateParam& param : params()) {
    if (param.lr_mult != 0) squares += SumOfSquares(param.count, gradients + param.offset);
  }
  const auto norm = static_cast<float>(std::sqrt(squares));
  // A NaN norm does not scale the gradient: the problem shows in the loss.
  if (!(norm > clip_gradients_)) return 1;
  const float scale = clip_gradients_ / norm;
  LOG_EVERY_T(INFO, 10) << "Gradient clipping: L2 norm " << norm << " > " << clip_gradients_
                        << ", scaled by " << scale;
  return scale;
}

void SgdRule::Apply(float rate, bool together, const float* gradients, float* weights) {
  SgdStep step;
  step.momentum = momentum_;
  const bool looks = ahead_ == LookAhead::kAlways || (together && ahead_ == LookAhead::kTogether);
  step.ahead = looks ? momentum_ : 0;
  step.scale = ClipScale(gradients) * normalization_;
  for (const UpdateParam& param : params()) {
    if (param.lr_mult == 0) continue;
    step.rate = rate * param.lr_mult;
    step.decay = weight_decay_ * param.decay_mult;
    Step(step, l1_, param.offset, param.count, gradients, weights);
  }
}

}  // namespace millrace
