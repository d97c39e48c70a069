#include "train/resume.h"

#include <glog/logging.h>

#include "base/files/file.h"

namespace millrace::inline train {
namespace {

// Changes `path` to this process's own part beside that snapshot, unless it is that part already.
// Returns false if there is no such part.
bool FindOwnPart(const std::string& part, std::string* path) {
  if (part.empty()) return true;
  for (const char* ending : {".solverstate", ".solverstate.h5"}) {
    if (path->ends_with(NodeStatePath(ending, part))) return true;
  }
  const std::string own = NodeStatePath(*path, part);
  if (!FileExists(own)) return false;
  *path = own;
  return true;
}

}  // namespace

Resumption LoadOwnResumePoint(std::string path, const std::string& part, bool takes_other) {
  Resumption resumption;
  resumption.is_own = FindOwnPart(part, &path);
  resumption.point = std::make_unique<ResumePoint>(LoadResumePoint(path));
  LOG(INFO) << "Resuming from " << path << " at iteration " << resumption.point->iteration();
  if (resumption.is_own) return resumption;
  if (takes_other) {
    LOG(INFO) << "No part of " << part << " is saved beside " << path << ": its solvers begin with "
              << "the histories of those that saved it";
    return resumption;
  }
  caffe::SolverState& state = resumption.point->state;
  state.clear_stream();
  state.clear_history();
  state.clear_solver_history();
  resumption.point->run.reset();
  LOG(INFO) << "No part of node " << part << " is saved beside " << path
            << ": it begins with its data anew, without momentum";
  return resumption;
}

void ResumePolicy(const ResumePoint& point, LrPolicy* policy) {
  const int32_t steps = point.state.current_step();
  const int32_t expected = policy->StepOfState(point.iteration());
  policy->Resume(point.iteration(), steps);
  if (policy->StepOfState(point.iteration()) == expected) return;
  LOG(WARNING) << point.path << " has taken " << steps
               << " steps of lr_policy \"multistep\", where "
               << "the stepvalues of the solver file give " << expected
               << ": as in Caffe, the learning rate goes "
               << "on from the snapshot's";
}

}  // namespace millrace::inline train
