#include "solver/solver_warnings.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::inline solver {

std::vector<std::string> SolverWarnings(const caffe::SolverParameter& param) {
  std::vector<std::string> lines;
  const auto warn = [&](bool wrong, const auto&... parts) {
    if (wrong) lines.push_back(StrCat(parts...));
  };
  warn(!param.has_base_lr(), "base_lr is not given: the learning rate is 0");
  warn(!param.has_max_iter(), "max_iter is not given: the run ends before its first iteration");
  warn(param.base_lr() < 0, "base_lr is ", param.base_lr(), ": the weights climb the loss");
  warn(param.momentum() < 0 || param.momentum() >= 1, "momentum is ", param.momentum(),
       ", which is not from 0 to less than 1: training is unlikely to converge");
  warn(param.weight_decay() < 0, "weight_decay is ", param.weight_decay(),
       ": the weights grow without bound");

  const std::string& policy = param.lr_policy();
  const auto missing = [&](const char* field, const char* effect) {
    warn(true, field, " is not given, lr_policy \"", policy, "\" takes it as 0: ", effect);
  };
  const bool falls = policy == "step" || policy == "multistep" || policy == "exp";
  if (falls && !param.has_gamma())
    missing("gamma", "the learning rate is 0 from the first step on");
  if (policy == "inv" && !param.has_gamma()) missing("gamma", "the learning rate is constant");
  if (policy == "sigmoid" && !param.has_gamma()) {
    missing("gamma", "the learning rate is half of base_lr");
  }
  if ((policy == "inv" || policy == "poly") && !param.has_power()) {
    missing("power", "the learning rate is constant");
  }
  if (policy == "multistep") {
    const auto& steps = param.stepvalue();
    warn(steps.empty(), "stepvalue is not given: the learning rate is constant");
    warn(std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end(),
         "the values of stepvalue do not increase: each takes effect after those before it");
  }
  for (int i = 0; i < param.test_iter_size(); ++i) {
    warn(param.test_iter(i) < 1, "test_iter[", i, "] is ", param.test_iter(i),
         ": the tests of that net have no batches");
  }
  return lines;
}

}  // namespace millrace::inline solver
