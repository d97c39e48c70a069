// How a solver on a device that merges in memory of the host copies its own weights.
#ifndef MILLRACE_STRATEGY_REPLICA_COPY_H_
#define MILLRACE_STRATEGY_REPLICA_COPY_H_

#include "millrace/device.h"
#include "strategy/local_merger.h"
#include "weights/device_weights.h"

namespace millrace::inline strategy {

// Not thread-safe; for the solver's thread.
class ReplicaCopy : public DeviceCopy {
 public:
  // `replica` outlives this object, and nothing but the solver's own queue changes it.
  explicit ReplicaCopy(DeviceWeights* replica) : replica_(*replica) {}

  // The queue of the solver's net, whose work is waited for before the weights are read. It
  // outlives this object. Before this call there is none.
  void SetQueue(Queue* queue) { queue_ = queue; }

  MemorySpace& staging() override { return replica_.device().staging(); }
  void Read(float* host) override {
    if (queue_ != nullptr) queue_->Synchronize();
    replica_.CopyToHost(host);
  }
  void Write(const float* host) override { replica_.CopyFromHost(host); }

 private:
  DeviceWeights& replica_;
  Queue* queue_ = nullptr;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_REPLICA_COPY_H_
