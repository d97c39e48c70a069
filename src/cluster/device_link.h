// Link between the host's replica of the weights and a replica in the memory of a device: a segment
// of two nodes, both in this process, over a loopback transport. One end, the root, forms the
// segment's view, so that both begin with its weights. The other joins, and leaves at the end. Both
// merge into and read their arrays while solvers change them; no solver waits.
#ifndef MILLRACE_CLUSTER_DEVICE_LINK_H_
#define MILLRACE_CLUSTER_DEVICE_LINK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads/thread_load.h"
#include "metrics/registry.h"
#include "segment/net_segment.h"
#include "segment/segment_thread.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline cluster {

enum class LinkRoot { kHost, kDevice };

struct DeviceLinkConfig {
  // For log lines, and the label of the metrics: "gpu0".
  std::string name;
  LinkRoot root = LinkRoot::kHost;
  // The root's weights are not there yet: the link begins after AllowBegin.
  bool awaits_weights = false;
  // Takes a smaller share of stale progress (exchange/protocol/damping.h), and all at the end.
  bool damping = false;
  // Limit for each direction; 0: none.
  double max_bytes_per_second = 0;
  // Processor times of the host's solvers, which the link's work on the host leaves alone
  // (segment/pace.h); outlives the link. Null: no limit.
  const ThreadLoad* solvers = nullptr;
  // Holds the metrics of the host's end, and outlives the link. Null: the link has its own.
  MetricsRegistry* registry = nullptr;
};

// Thread-safe.
class DeviceLink {
 public:
  // The arrays have the same size. Everything that is passed by pointer outlives the link. Throws
  // Error if there is not enough memory or the device has failed.
  DeviceLink(const DeviceLinkConfig& config, WeightBuffer* host, DeviceWeights* device,
             const Clock* clock);
  ~DeviceLink() { Stop(); }
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;

  // Starts the threads of both ends. `sink` receives their errors. The host's end calls
  // `before_pass` before each of its passes; it reports progress and merges.
  void Start(ErrorSink* sink, std::function<void()> before_pass);

  // Ends the threads at once. Call Leave() and wait for left() first to lose no progress.
  void Stop();

  // With `awaits_weights`: the root has the weights.
  void AllowBegin() { root().state().AllowBootstrap(); }
  // Both ends have the root's weights, so solvers of the other end may begin.
  bool in_sync() const { return joiner().state().in_sync(); }
  // Iterations that changed each replica without this link. Smaller values than before have no
  // effect.
  void SetProgress(uint64_t host, uint64_t device);
  // Merges into each replica by this link, and by everything else but solvers. Never decrease.
  uint64_t merges_into_host() const { return host_->state().merges(); }
  uint64_t merges_into_device() const { return device_->state().merges(); }
  void SetOtherMerges(uint64_t host, uint64_t device);

  // For use after the solvers of the joining end have ended: requests that the root gets all
  // progress of that end, exactly. That end gets no further weights.
  void Leave() { joiner().state().RequestLeave(); }
  // The root has all progress, or the link was never in sync, or it has failed and will bring no
  // more.
  bool left() const { return failed_ || joiner().state().left(); }

  const std::string& name() const { return host_->name(); }
  // For tests and statistics.
  const NetSegment& host_end() const { return *host_; }
  const NetSegment& device_end() const { return *device_; }

 private:
  NetSegment& root() { return root_ == LinkRoot::kHost ? *host_ : *device_; }
  NetSegment& joiner() { return root_ == LinkRoot::kHost ? *device_ : *host_; }
  const NetSegment& joiner() const { return root_ == LinkRoot::kHost ? *device_ : *host_; }
  static void Raise(SegmentState* state, uint64_t progress);
  void PassOnError();

  const LinkRoot root_;
  const Clock& clock_;
  const ThreadLoad* const solvers_;
  std::unique_ptr<NetSegment> host_, device_;
  std::atomic<bool> failed_{false};
  ErrorSink* sink_ = nullptr;
  ErrorSink errors_{[this] { PassOnError(); }};  // of the threads
  std::unique_ptr<SegmentThread> host_thread_, device_thread_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_DEVICE_LINK_H_
