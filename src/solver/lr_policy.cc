#include "solver/lr_policy.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline solver {
namespace {

// The iteration, from `start` on, at which each step is taken whose stepvalue is in `values`. Caffe
// takes at most one in an iteration, in the order of the file: a value that does not exceed the one
// before it takes effect an iteration later.
template <typename Values>
std::vector<int64_t> StepsOf(const Values& values, int64_t start) {
  std::vector<int64_t> steps;
  for (const int64_t value : values) {
    steps.push_back(std::max(value, steps.empty() ? start : steps.back() + 1));
  }
  return steps;
}

}  // namespace

LrPolicy::LrPolicy(const caffe::SolverParameter& param)
    : base_lr_(param.base_lr()),
      gamma_(param.gamma()),
      power_(param.power()),
      stepsize_(param.stepsize()),
      max_iter_(param.max_iter()),
      warmup_iter_(param.warmup_iter()),
      warmup_start_lr_(param.warmup_start_lr()),
      stage_rates_(param.stagelr().begin(), param.stagelr().end()),
      stage_ends_(param.stageiter().begin(), param.stageiter().end()),
      stepvalues_(param.stepvalue().begin(), param.stepvalue().end()),
      steps_(StepsOf(stepvalues_, 0)) {
  static const struct {
    const char* name;
    Kind kind;
    bool gamma;
  } kPolicies[] = {
      {"fixed", Kind::kFixed, false},
      {"step", Kind::kStep, true},
      {"exp", Kind::kExp, true},
      {"inv", Kind::kInv, true},
      {"multistep", Kind::kMultistep, true},
      {"poly", Kind::kPoly, false},
      {"sigmoid", Kind::kSigmoid, true},
      {"multifixed", Kind::kMultifixed, false},
  };
  if (param.lr_policy() == "plateau") {
    throw FieldError("lr_policy", "\"plateau\" is not there: rates depend on the iteration alone, ",
                     "not on the loss, which each solver and node sees differently; use ",
                     "\"multistep\"");
  }
  const auto* policy = std::find_if(std::begin(kPolicies), std::end(kPolicies),
                                    [&](const auto& p) { return param.lr_policy() == p.name; });
  if (policy == std::end(kPolicies)) {
    std::string known;
    for (const auto& p : kPolicies) known += StrCat(known.empty() ? "" : ", ", p.name);
    if (!param.has_lr_policy()) throw FieldError("lr_policy", "missing, expected one of: ", known);
    throw FieldError("lr_policy", "there is no policy \"", param.lr_policy(), "\"; known: ", known);
  }
  kind_ = policy->kind;
  if (warmup_iter_ < 0) throw FieldError("warmup_iter", warmup_iter_, " given, expected >= 0");
  if (kind_ == Kind::kMultifixed) CheckStages();
  if (policy->gamma && !(gamma_ >= 0)) {
    throw FieldError("gamma", param.gamma(), " given, expected a number >= 0");
  }
  if (kind_ != Kind::kStep && kind_ != Kind::kSigmoid) return;
  if (!param.has_stepsize()) {
    throw FieldError("stepsize", "missing; lr_policy \"", param.lr_policy(), "\" needs it");
  }
  if (stepsize_ <= 0) throw FieldError("stepsize", stepsize_, " given, expected > 0");
}

void LrPolicy::Resume(int64_t iteration, int32_t steps) {
  if (kind_ != Kind::kMultistep) return;
  steps_before_ = std::max(steps, 0);
  const size_t taken = std::min(stepvalues_.size(), static_cast<size_t>(steps_before_));
  steps_ = StepsOf(std::span(stepvalues_).subspan(taken), iteration);
}

void LrPolicy::CheckStages() const {
  if (stage_rates_.empty()) {
    throw FieldError("stagelr", "missing; lr_policy \"multifixed\" needs it");
  }
  if (stage_rates_.size() != stage_ends_.size()) {
    throw FieldError("stageiter", stage_ends_.size(), " given, expected ", stage_rates_.size(),
                     ", one for each stagelr");
  }
}

float LrPolicy::RateOfFile(int64_t iteration) const {
  if (iteration < warmup_iter_) {
    const double share = static_cast<double>(iteration) / static_cast<double>(warmup_iter_);
    return static_cast<float>(warmup_start_lr_ + (base_lr_ - warmup_start_lr_) * share);
  }
  if (kind_ == Kind::kMultifixed) {
    size_t stage = 0;
    while (stage + 1 < stage_ends_.size() && iteration > stage_ends_[stage]) ++stage;
    return stage_rates_[stage];
  }
  if (base_lr_ == 0) return 0;  // factors may be infinite
  const auto i = static_cast<double>(iteration);
  double factor = 1;
  switch (kind_) {
    case Kind::kFixed:
    case Kind::kMultifixed:
      break;
    case Kind::kStep:
    case Kind::kMultistep:
      factor = std::pow(gamma_, Step(iteration));
      break;
    case Kind::kExp:
      factor = std::pow(gamma_, i);
      break;
    case Kind::kInv:
      factor = std::pow(1 + gamma_ * i, -power_);
      break;
    case Kind::kPoly:
      // Several solvers may overshoot max_iter by a few iterations.
      factor = iteration < max_iter_ ? std::pow(1 - i / static_cast<double>(max_iter_), power_) : 0;
      break;
    case Kind::kSigmoid:
      factor = 1 / (1 + std::exp(-gamma_ * (i - static_cast<double>(stepsize_))));
      break;
  }
  return static_cast<float>(base_lr_ * factor);
}

int32_t LrPolicy::Step(int64_t iteration) const {
  if (kind_ == Kind::kStep) return static_cast<int32_t>(iteration / stepsize_);
  if (kind_ != Kind::kMultistep) return 0;
  const auto above = std::upper_bound(steps_.begin(), steps_.end(), iteration);
  return steps_before_ + static_cast<int32_t>(above - steps_.begin());
}

std::string LrPolicy::Notice(int64_t iteration) const {
  if (kind_ != Kind::kMultistep) return "";
  if (!std::binary_search(steps_.begin(), steps_.end(), iteration)) return "";
  return StrCat("MultiStep Status: Iteration ", iteration, ", step = ", Step(iteration));
}

}  // namespace millrace::inline solver
