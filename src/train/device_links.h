// The links of a run between the host's replica and its replicas on devices, and what they tell
// each other and the cluster: each passes on what the others merge into the host's replica.
//
// The cluster's segments work on the host's replica or on one of the devices'. The link of such a
// device has its root there: the host joins it, and the other devices follow.
#ifndef MILLRACE_TRAIN_DEVICE_LINKS_H_
#define MILLRACE_TRAIN_DEVICE_LINKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads/thread_load.h"
#include "cluster/cluster.h"
#include "cluster/device_link.h"
#include "metrics/registry.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline train {

struct DeviceLinksConfig {
  WeightBuffer* host = nullptr;
  std::vector<DeviceWeights*> devices;
  Cluster* cluster = nullptr;  // null: no cluster
  // The replica on which the cluster's segments work, one of `devices`; null: the host's.
  const DeviceWeights* cluster_device = nullptr;
  const Clock* clock = nullptr;
  ErrorSink* sink = nullptr;                  // receives the errors of the links' threads
  const ThreadLoad* solvers = nullptr;        // of the host; null: the links take what they need
  double max_bytes_per_second = 0;            // for each link and direction; 0: no limit
  std::shared_ptr<MetricsRegistry> registry;  // holds the metrics of the host's ends
};

// Everything that the configuration points to outlives this object. Thread-safe.
class DeviceLinks {
 public:
  // Starts the links, named "gpu" and the ordinal of the device. Throws Error as DeviceLink does.
  explicit DeviceLinks(const DeviceLinksConfig& config);
  ~DeviceLinks();
  DeviceLinks(const DeviceLinks&) = delete;
  DeviceLinks& operator=(const DeviceLinks&) = delete;

  // All replicas have the same weights to begin with.
  bool in_sync() const;
  // For use after all solvers have ended: requests that the replica on which the cluster works, the
  // host's without a cluster, gets all progress. left() becomes true when it has, except for that
  // of links that have failed.
  void Leave();
  bool left() const;
  // Ends the links. None changes a replica any more, and the cluster knows of all merges.
  void Stop();

  const std::vector<std::unique_ptr<DeviceLink>>& links() const { return links_; }

 private:
  bool IsRoot(size_t index) const { return config_.devices[index] == config_.cluster_device; }
  bool All(bool (DeviceLink::*holds)() const, bool with_root) const;
  void Lead(size_t index);
  void Count(size_t index);

  const DeviceLinksConfig config_;
  std::vector<uint64_t> before_;    // by link: iterations of its device before the link began
  std::vector<uint64_t> reported_;  // by link: merges that the cluster was told; its own thread's
  std::atomic<bool> leaving_{false};
  std::vector<std::unique_ptr<DeviceLink>> links_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_DEVICE_LINKS_H_
