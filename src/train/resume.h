// The snapshot that a run continues, as this process reads it.
#ifndef MILLRACE_TRAIN_RESUME_H_
#define MILLRACE_TRAIN_RESUME_H_

#include <memory>
#include <string>

#include "solver/snapshot.h"

namespace millrace::inline train {

struct Resumption {
  std::unique_ptr<ResumePoint> point;
  // The data positions and momentum in `point` are this process's. False: they belonged to another
  // node and are cleared.
  bool is_own = true;
};

// Loads the .solverstate file at `path`. In a cluster, where this node is `node` ("" without a
// cluster), reads the node's own part from beside that file, unless `path` names it already. Logs
// what it continues. Throws Error naming the file.
Resumption LoadOwnResumePoint(std::string path, const std::string& node);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RESUME_H_
