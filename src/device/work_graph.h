// Work of a queue that is recorded once and then enqueued as a whole, any number of times: the host
// spends one call on it instead of one on each kernel. A CUDA graph.
#ifndef MILLRACE_DEVICE_WORK_GRAPH_H_
#define MILLRACE_DEVICE_WORK_GRAPH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "millrace/device.h"

namespace millrace::inline device {

// Belongs to the queue for which it was recorded, and ends before it. Used by the queue's thread.
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;
  // Enqueues the work. All memory that it uses must still be where it was. Throws Error if the
  // device has failed.
  virtual void Enqueue() = 0;
};

// Recorders by type of device. Registration happens before main(); the rest is thread-safe.
class GraphRecorders {
 public:
  // Calls enqueue(), which enqueues work on `queue` and does nothing else with the device: it
  // neither waits nor allocates, and marks no event. The work does not run. Returns null, and sets
  // `*why`, if the device cannot record it; the queue is then as before. Throws what enqueue()
  // throws.
  using Recorder = std::unique_ptr<WorkGraph> (*)(Queue& queue,
                                                  const std::function<void()>& enqueue,
                                                  std::string* why);

  // Null if this type of device has none.
  static Recorder Find(DeviceType type) {
    const auto found = Table().find(type);
    return found == Table().end() ? nullptr : found->second;
  }

 private:
  friend struct RegisterGraphRecorder;
  static std::map<DeviceType, Recorder>& Table() {
    static std::map<DeviceType, Recorder> table;
    return table;
  }
};

// Define one at namespace scope in the backend's file.
struct RegisterGraphRecorder {
  RegisterGraphRecorder(DeviceType type, GraphRecorders::Recorder recorder) {
    GraphRecorders::Table()[type] = recorder;
  }
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_WORK_GRAPH_H_
