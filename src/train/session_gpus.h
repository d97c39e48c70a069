// The GPUs of a session (millrace/session.h): in the memory of each a replica of the weights, on
// which one solver trains.
#ifndef MILLRACE_TRAIN_SESSION_GPUS_H_
#define MILLRACE_TRAIN_SESSION_GPUS_H_

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "train/device_links.h"

namespace millrace::inline train {

// One thread at a time calls it.
class SessionGpus {
 public:
  // `host` and `clock` outlive this object. `linked`: whether links keep the replicas close to the
  // host's weights (StrategyEntry::links_devices). Throws OutOfMemory.
  SessionGpus(const std::vector<Device*>& gpus, WeightBuffer* host, bool linked,
              const Clock* clock);

  int count() const { return static_cast<int>(replicas_.size()); }
  // The replica of solver `index`: solvers on GPUs come first. Null: it computes on a CPU.
  DeviceWeights* ReplicaOf(int index) const {
    return index < count() ? replicas_[index].get() : nullptr;
  }
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

  WeightBuffer& host_;
  const bool linked_;
  const Clock& clock_;
  ErrorSink errors_;
  std::vector<std::unique_ptr<DeviceWeights>> replicas_;
  std::unique_ptr<DeviceLinks> links_;  // null: the replicas are not linked now
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SESSION_GPUS_H_
