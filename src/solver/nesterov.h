// Nesterov's accelerated gradient in Caffe's form: SGD (sgd.h) whose step 4 is always
//   h' = momentum * h + rate * lr_mult * g
//   w  = w - ((1 + momentum) * h' - momentum * h); h = h'
// (Sutskever, Martens, Dahl, Hinton: "On the importance of initialization and momentum in deep
// learning", ICML 2013).
#ifndef MILLRACE_SOLVER_NESTEROV_H_
#define MILLRACE_SOLVER_NESTEROV_H_

#include <vector>

#include "solver/sgd.h"

namespace millrace {

class NesterovRule : public SgdRule {
 public:
  NesterovRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
               int64_t size)
      : SgdRule(param, params, size, LookAhead::kAlways) {}
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_NESTEROV_H_
