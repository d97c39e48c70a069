// The snapshot that a run continues, as this process reads it.
#ifndef MILLRACE_TRAIN_RESUME_H_
#define MILLRACE_TRAIN_RESUME_H_

#include <memory>
#include <string>

#include "solver/lr_policy.h"
#include "solver/snapshot.h"

namespace millrace::inline train {

struct Resumption {
  std::unique_ptr<ResumePoint> point;
  // The data positions and momentum in `point` are this process's. False: they belonged to another
  // process, and are cleared unless the caller takes them.
  bool is_own = true;
};

// Loads the .solverstate file at `path`. If this process has a part of its own in snapshots, named
// `part` ("": it has none), reads that from beside the file, unless `path` names it already. If
// there is no such part, the point is that of the file: with `takes_other` all of it, else without
// what belonged to another node. Logs what it continues. Throws Error naming the file.
Resumption LoadOwnResumePoint(std::string path, const std::string& part, bool takes_other = false);

// Makes the schedule of learning rates go on from `point`. Logs a warning if its stepvalues are not
// those that the snapshot has followed.
void ResumePolicy(const ResumePoint& point, LrPolicy* policy);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RESUME_H_
