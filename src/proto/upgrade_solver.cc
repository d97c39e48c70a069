#include "proto/upgrade_solver.h"

#include "base/error.h"

namespace millrace::inline proto {

using caffe::SolverParameter;

const char* TypeNameOf(SolverParameter::SolverType type) {
  switch (type) {
    case SolverParameter::SGD:
      return "SGD";
    case SolverParameter::NESTEROV:
      return "Nesterov";
    case SolverParameter::ADAGRAD:
      return "AdaGrad";
    case SolverParameter::RMSPROP:
      return "RMSProp";
    case SolverParameter::ADADELTA:
      return "AdaDelta";
    case SolverParameter::ADAM:
      return "Adam";
  }
  return "";  // the parser of a closed enumeration admits no other number
}

bool UpgradeSolver(SolverParameter* solver) {
  if (!solver->has_solver_type()) return false;
  if (solver->has_type()) {
    throw FieldError("solver_type", SolverParameter::SolverType_Name(solver->solver_type()),
                     " given beside type: \"", solver->type(), "\", expected one of them");
  }
  solver->set_type(TypeNameOf(solver->solver_type()));
  solver->clear_solver_type();
  return true;
}

}  // namespace millrace::inline proto
