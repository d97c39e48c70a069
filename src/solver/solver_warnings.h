// Settings of a solver file that Caffe accepts, but whose effect is hardly wanted.
#ifndef MILLRACE_SOLVER_SOLVER_WARNINGS_H_
#define MILLRACE_SOLVER_SOLVER_WARNINGS_H_

#include <string>
#include <vector>

#include "proto/caffe.pb.h"

namespace millrace::inline solver {

// One line for each such setting of a valid solver: the field and its effect.
std::vector<std::string> SolverWarnings(const caffe::SolverParameter& param);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SOLVER_WARNINGS_H_
