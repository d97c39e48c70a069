#include "solver/sgd.h"

#include <glog/logging.h>

#include <cmath>

#include "solver/hogwild_update.h"

namespace millrace {

SgdRule::SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
                 int64_t size)
    : SgdRule(param, params, size,
              param.momentum_lookahead() ? LookAhead::kTogether : LookAhead::kNever) {}

SgdRule::SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
                 int64_t size, LookAhead ahead)
    : UpdateRule(params, size, 1),
      ahead_(ahead),
      momentum_(param.momentum()),
      weight_decay_(param.weight_decay()),
      clip_gradients_(param.clip_gradients()),
      normalization_(1.0f / static_cast<float>(param.iter_size())),
      l1_(param.regularization_type() == "L1") {}

float SgdRule::ClipScale(const float* gradients) const {
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
    ForEachBlock(param, weights, [&](int64_t offset, int64_t count) {
      (l1_ ? HogwildUpdateSgdL1 : HogwildUpdateSgdL2)(
          step, count, gradients + offset, history(0) + offset, weights + offset, BestSimd());
    });
  }
}

namespace {
const RegisterUpdateRule<SgdRule> registered("SGD");
}  // namespace

}  // namespace millrace
