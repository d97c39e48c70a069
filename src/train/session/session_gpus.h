// The GPUs of a session (millrace/session.h): links that keep their replicas of the weights close
// to the host's while solvers compute.
#ifndef MILLRACE_TRAIN_SESSION_SESSION_GPUS_H_
#define MILLRACE_TRAIN_SESSION_SESSION_GPUS_H_

#include <memory>

#include "base/error.h"
#include "train/device_links.h"
#include "train/run_setup.h"

namespace millrace::inline train {

// One thread at a time calls it.
class SessionGpus {
 public:
  // `setup` outlives this object.
  explicit SessionGpus(RunSetup* setup);

  // Joins the replicas to the host's, unless they are. Returns when all have its weights.
  // `cluster`: the one that trains the host's replica, which outlives the links; null: none does.
  // Throws Error if a device has failed.
  void Link(Cluster* cluster);
  // Called while no solver computes: brings all progress of the GPUs into the host's replica and
  // ends the links. Throws Error as Link.
  void Unlink();
  // Throws the first error of the links.
  void RethrowIfFailed() const { errors_.RethrowIfFailed(); }

 private:
  // Waits for all links.
  void Await(bool (DeviceLinks::*holds)() const) const;

  RunSetup& setup_;
  const bool linked_;  // StrategyPlan::links_devices
  ErrorSink errors_;
  std::unique_ptr<DeviceLinks> links_;  // null: the replicas are not linked now
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SESSION_SESSION_GPUS_H_
