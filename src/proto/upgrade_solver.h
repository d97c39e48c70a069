// Brings a solver file in Caffe's earlier format to today's: the number solver_type becomes the
// name `type`.
#ifndef MILLRACE_PROTO_UPGRADE_SOLVER_H_
#define MILLRACE_PROTO_UPGRADE_SOLVER_H_

#include "proto/caffe.pb.h"

namespace millrace::inline proto {

// The name of a solver type today ("AdaGrad").
const char* TypeNameOf(caffe::SolverParameter::SolverType type);

// Returns whether `solver` was in the earlier format. Throws FieldError if it has both fields.
bool UpgradeSolver(caffe::SolverParameter* solver);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UPGRADE_SOLVER_H_
