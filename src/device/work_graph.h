// Work of a queue that is recorded once and then enqueued as a whole, any number of times: the host
// spends one call on it instead of one on each kernel. A CUDA graph.
//
// Within the work there may be a mark, so that the host learns a result before all of the work has
// ended; and a wait, for work of other queues that only the part behind it depends on.
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
  // Enqueues the work. All memory that it uses must still be where it was. If the work waits, it
  // waits for `other`, and the work that was enqueued before the last one of this graph has to be
  // complete. Throws Error if the device has failed.
  virtual void Enqueue(const Event& other = {}) = 0;
  // The mark in the work that was enqueued last. Reached if there is none.
  virtual Event marked() const = 0;
};

// What recorded work consists of besides copies, fills and kernels of its queue. Each may be called
// once in a recording.
class GraphPoints {
 public:
  virtual ~GraphPoints() = default;
  // WorkGraph::marked() is reached once the work that was enqueued before this call has completed.
  virtual void Mark() = 0;
  // Work that is enqueued behind this call begins after the event of WorkGraph::Enqueue.
  virtual void Wait() = 0;
};

// Recorders by type of device. Registration happens before main(); the rest is thread-safe.
class GraphRecorders {
 public:
  // Calls enqueue(points), which enqueues work on `queue` and does nothing else with the device: it
  // neither waits nor allocates, and marks no event, except by `points`. The work does not run.
  // Returns null, and sets `*why`, if the device cannot record it, or if enqueue() throws Error;
  // the queue is then as before. Throws Error if the device has failed.
  using Recorder = std::unique_ptr<WorkGraph> (*)(
      Queue& queue, const std::function<void(GraphPoints& points)>& enqueue, std::string* why);

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
