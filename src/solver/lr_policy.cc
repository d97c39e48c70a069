#include "solver/lr_policy.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace {
namespace {

void RequireRange(const char* field, bool set, double value, const char* policy) {
  if (!set) throw FieldError(field, "missing; lr_policy \"", policy, "\" needs it");
  if (!std::isfinite(value) || value < 0) {
    throw FieldError(field, value, " given, expected a number >= 0");
  }
}

void RequireStepsize(const caffe::SolverParameter& param) {
  if (!param.has_stepsize()) {
    throw FieldError("stepsize", "missing; lr_policy \"", param.lr_policy(), "\" needs it");
  }
  if (param.stepsize() <= 0) throw FieldError("stepsize", param.stepsize(), " given, expected > 0");
}

void RequireStepvalues(const caffe::SolverParameter& param) {
  if (param.stepvalue_size() == 0) {
    throw FieldError("stepvalue", "missing; lr_policy \"multistep\" needs it");
  }
  for (int i = 0; i < param.stepvalue_size(); ++i) {
    const std::string field = StrCat("stepvalue[", i, "]");
    if (param.stepvalue(i) < 0)
      throw FieldError(field, param.stepvalue(i), " given, expected >= 0");
    if (i > 0 && param.stepvalue(i) <= param.stepvalue(i - 1)) {
      throw FieldError(field, param.stepvalue(i), " follows ", param.stepvalue(i - 1),
                       "; step values must increase");
    }
  }
}

}  // namespace

LrPolicy::LrPolicy(const caffe::SolverParameter& param)
    : base_lr_(param.base_lr()),
      gamma_(param.gamma()),
      power_(param.power()),
      stepsize_(param.stepsize()),
      max_iter_(param.max_iter()),
      stepvalues_(param.stepvalue().begin(), param.stepvalue().end()) {
  static const struct {
    const char* name;
    Kind kind;
    bool gamma, power;
  } kPolicies[] = {
      {"fixed", Kind::kFixed, false, false},
      {"step", Kind::kStep, true, false},
      {"exp", Kind::kExp, true, false},
      {"inv", Kind::kInv, true, true},
      {"multistep", Kind::kMultistep, true, false},
      {"poly", Kind::kPoly, false, true},
      {"sigmoid", Kind::kSigmoid, true, false},
  };
  const auto* policy = std::find_if(std::begin(kPolicies), std::end(kPolicies),
                                    [&](const auto& p) { return param.lr_policy() == p.name; });
  if (policy == std::end(kPolicies)) {
    std::string known;
    for (const auto& p : kPolicies) known += StrCat(known.empty() ? "" : ", ", p.name);
    if (!param.has_lr_policy()) throw FieldError("lr_policy", "missing, expected one of: ", known);
    throw FieldError("lr_policy", "there is no policy \"", param.lr_policy(), "\"; known: ", known);
  }
  kind_ = policy->kind;
  RequireRange("base_lr", param.has_base_lr(), param.base_lr(), policy->name);
  if (policy->gamma) RequireRange("gamma", param.has_gamma(), param.gamma(), policy->name);
  if (policy->power) RequireRange("power", param.has_power(), param.power(), policy->name);
  if (kind_ == Kind::kStep || kind_ == Kind::kSigmoid) RequireStepsize(param);
  if (kind_ == Kind::kMultistep) RequireStepvalues(param);
  if (kind_ == Kind::kPoly && !(param.has_max_iter() && param.max_iter() > 0)) {
    throw FieldError("max_iter", "lr_policy \"poly\" needs a max_iter > 0");
  }
}

float LrPolicy::Rate(int64_t iteration) const {
  const auto i = static_cast<double>(iteration);
  double factor = 1;
  switch (kind_) {
    case Kind::kFixed:
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
  const auto above = std::upper_bound(stepvalues_.begin(), stepvalues_.end(), iteration);
  return static_cast<int32_t>(above - stepvalues_.begin());
}

std::string LrPolicy::Notice(int64_t iteration) const {
  if (kind_ != Kind::kMultistep) return "";
  if (!std::binary_search(stepvalues_.begin(), stepvalues_.end(), iteration)) return "";
  return StrCat("MultiStep Status: Iteration ", iteration, ", step = ", Step(iteration));
}

}  // namespace millrace
