#include "train/evaluation/score_check.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace millrace::inline train {
namespace {

constexpr double kLossFactor = 2, kLossSlack = 0.1;
constexpr double kAccuracyFall = 0.1, kErrorFactor = 1.5;

bool IsShare(double value) { return value >= 0 && value <= 1; }

bool IsFarWorse(const OutputMean& before, const OutputMean& last) {
  if (!std::isfinite(before.mean)) return false;
  if (last.loss_weight > 0) {
    // Uses the absolute value because some objectives have negative losses.
    const double most = before.mean + (kLossFactor - 1) * std::abs(before.mean) + kLossSlack;
    return last.mean > most;
  }
  if (!last.is_accuracy || !IsShare(before.mean) || !IsShare(last.mean)) return false;
  return before.mean - last.mean > kAccuracyFall &&
         1 - last.mean >= kErrorFactor * (1 - before.mean);
}

bool IsBroken(const OutputMean& last) {
  return (last.loss_weight != 0 || last.is_accuracy) && !std::isfinite(last.mean);
}

}  // namespace

std::string ScoreLoss(const std::optional<TestScores>& before, const TestScores& last,
                      const std::string& model) {
  for (size_t net = 0; net < last.nets.size(); ++net) {
    const std::vector<OutputMean>& outputs = last.nets[net].outputs;
    const std::vector<OutputMean>* earlier = nullptr;
    if (before && net < before->nets.size() && before->nets[net].outputs.size() == outputs.size()) {
      earlier = &before->nets[net].outputs;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool worse = earlier != nullptr && IsFarWorse((*earlier)[i], outputs[i]);
      if (!worse && !IsBroken(outputs[i])) continue;
      return StrCat(
          "test net #", net, ": ", outputs[i].name, " is ", outputs[i].mean,
          " at the end, iteration ", last.iteration,
          earlier == nullptr
              ? std::string()
              : StrCat(", after ", (*earlier)[i].mean, " at iteration ", before->iteration),
          ": ", model, " is worse than the run was; use the last snapshot before it, or ",
          "train again with a lower base_lr or fresher exchanges (a faster link, a coarser ",
          "codec, fewer nodes)");
    }
  }
  return "";
}

}  // namespace millrace::inline train
