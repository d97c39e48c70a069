#include "train/snapshot_writer.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace millrace::inline train {

SnapshotWriter::SnapshotWriter(std::string prefix, std::string node, const Clock* clock,
                               WroteModel wrote_model)
    : prefix_(std::move(prefix)),
      node_(std::move(node)),
      clock_(*clock),
      wrote_model_(std::move(wrote_model)) {}

SnapshotWriter::Job SnapshotWriter::JobOf(Snapshot snapshot) const {
  const bool with_model = snapshot.model.layer_size() > 0;
  return {std::move(snapshot), with_model, with_model, !node_.empty()};
}

void SnapshotWriter::WriteParts(Job* job) const {
  const Snapshot& snapshot = job->snapshot;
  const char* const kind =
      snapshot.format == caffe::SolverParameter::HDF5 ? "HDF5 file " : "binary proto file ";
  const SnapshotPaths paths = SnapshotPathsOf(prefix_, snapshot.iteration, snapshot.format);
  if (job->model) {
    LOG(INFO) << "Snapshotting to " << kind << paths.model;
    WriteModel(prefix_, snapshot);
    job->model = false;
  }
  if (job->state) {
    LOG(INFO) << "Snapshotting solver state to " << kind << paths.state;
    WriteState(prefix_, snapshot);
    job->state = false;
    wrote_model_(snapshot.iteration, paths.state);
  }
  if (job->part) {
    LOG(INFO) << "Snapshotting this node's part to " << kind << NodeStatePath(paths.state, node_);
    WriteNodeState(prefix_, node_, snapshot);
    job->part = false;
  }
}

void SnapshotWriter::Write(Snapshot snapshot) { Try(JobOf(std::move(snapshot))); }

void SnapshotWriter::Poll() {
  const int64_t retry_ns = retry_ns_.load(std::memory_order_relaxed);
  if (retry_ns == INT64_MAX || clock_.NowNs() < retry_ns) return;
  if (std::optional<Job> job = TakeKept()) Try(std::move(*job));
}

void SnapshotWriter::Try(Job job) {
  try {
    WriteParts(&job);
  } catch (const Error& error) {
    return Keep(std::move(job), error.what());
  }
  std::lock_guard lock(mutex_);
  pause_ns_ = kRetryNs;
}

void SnapshotWriter::Keep(Job job, const std::string& why) {
  ++failures_;
  std::lock_guard lock(mutex_);
  const int64_t pause_ns = std::exchange(pause_ns_, std::min(2 * pause_ns_, kMaxRetryNs));
  LOG(WARNING) << "The snapshot of iteration " << job.snapshot.iteration
               << " was not written: " << why << "; training goes on, trying again in "
               << pause_ns / 1'000'000'000 << " s";
  retry_ns_ = clock_.NowNs() + pause_ns;
  if (!kept_) {
    kept_ = std::move(job);
    return;
  }
  if (job.snapshot.iteration > kept_->snapshot.iteration) std::swap(*kept_, job);
  LOG(WARNING) << "Gave up the snapshot of iteration " << job.snapshot.iteration
               << " for a newer one";
}

std::optional<SnapshotWriter::Job> SnapshotWriter::TakeKept() {
  std::lock_guard lock(mutex_);
  retry_ns_ = INT64_MAX;
  return std::exchange(kept_, std::nullopt);
}

void SnapshotWriter::Finish(int64_t iteration, std::optional<Snapshot> last,
                            const std::function<bool(int ms)>& pause) {
  std::optional<Job> job = TakeKept();
  if (job && (last || job->snapshot.iteration < iteration)) {
    try {
      WriteParts(&*job);
    } catch (const Error& error) {
      ++failures_;
      LOG(WARNING) << "Gave up the snapshot of iteration " << job->snapshot.iteration << ": "
                   << error.what();
    }
    job.reset();
  }
  if (last) job = JobOf(std::move(*last));
  if (!job) return;
  for (const int* ms = std::begin(kLastPausesMs);; ++ms) {
    try {
      return WriteParts(&*job);
    } catch (const Error& error) {
      ++failures_;
      if (ms == std::end(kLastPausesMs)) throw;
      LOG(WARNING) << "The last snapshot was not written: " << error.what() << "; trying again in "
                   << *ms / 1000 << " s";
      if (!pause(*ms)) throw;
    }
  }
}

}  // namespace millrace::inline train
