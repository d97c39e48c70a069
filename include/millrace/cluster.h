// A node of a cluster around a program's own training loop: the program owns an array of weights
// and changes it as it likes; the node's segments stream its progress to the other nodes and theirs
// into the array, without barriers. Progress that becomes stale is damped, unless the segment says
// `damping: false` (docs/exchange.md). No net, data or solver of Millrace is involved.
//
//   std::vector<float> weights = ...;
//   millrace::ClusterMember member({.topology = "cluster.prototxt", .node = "a"}, weights);
//   member.Join();
//   while (member.iterations() < 10000) {
//     ... compute `update` from `weights` ...
//     member.Add(update);
//   }
//   member.Finish();
#ifndef MILLRACE_CLUSTER_H_
#define MILLRACE_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

class MetricsRegistry;

struct ClusterOptions {
  std::string topology;  // path of the topology file
  std::string node;      // this node's name there; "": chosen by rank
  // Identifies the layout of the array. Nodes with different ids refuse each other. 0 is a valid
  // id.
  uint64_t layout = 0;
  // Iterations that the weights have seen, if this node's weights start the run.
  int64_t iteration = 0;
  // Gets the metrics of the segments and outlives the member (millrace/metrics.h). Null: they are
  // not read.
  MetricsRegistry* metrics = nullptr;
  // Join and Finish call it about every 5 ms while they wait, in the thread that called them. Its
  // exception ends the wait: both may be called again, Leave and Fail too.
  std::function<void()> poll = nullptr;
  // Nodes join and leave by a registry (docs/operations.md#elastic-clusters):
  // "etcd://HOST:PORT/RUN", and "MIN:MAX" nodes. `node` is then "", and `topology` names segments
  // only, or is "". "": the topology names the nodes.
  std::string rendezvous = "", nodes = "";
  // How the program scales its learning rate, by ClusterMember::rate_factor(): "none", "linear" for
  // steps that grow with the gradient (SGD), or "root" for those that are divided by its magnitude
  // (Adam). Unless it is "none", three to 16 nodes on one segment average their progress, if the
  // topology names neither a merge rule nor damping, and does not say scaling: "none"
  // (docs/learning.md#merge-rules). The same on all nodes.
  std::string scaling = "none";
  // Iterations of all nodes during which the factor rises from 1; at least 100 for each unit of it.
  int64_t warmup = 0;
};

// One thread at a time calls it, except for iterations(). Segments write the array at any time from
// construction to destruction; the program reads it without a lock and may see any mixture of old
// and new weights.
class MILLRACE_API ClusterMember {
 public:
  // Starts the segments of the node. `weights` (64-byte aligned, at least one) outlive this object.
  // Throws Error with one line for a bad topology or a segment that cannot start.
  ClusterMember(const ClusterOptions& options, std::span<float> weights);
  // Leaves at once, without handing over; call Finish or Leave first.
  ~ClusterMember();
  ClusterMember(const ClusterMember&) = delete;
  ClusterMember& operator=(const ClusterMember&) = delete;

  // Blocks until this node has the run's weights: its own if it starts the run, else the others'.
  // Throws Error if the others refuse this node, or if this takes longer than `seconds`. The calls
  // below that change or send something are an Error before Join and after Finish, Leave or Fail.
  void Join(double seconds = 60);

  // Calls `update` for consecutive parts of the array, each with the offset of its first float.
  // Parts are locked against the segments, so that no concurrent change is lost. Counts one
  // iteration.
  void Update(const std::function<void(size_t offset, std::span<float> part)>& update);
  // Adds `delta`, which is as long as the weights. Counts one iteration. If an element is not
  // finite, publishes that to the other nodes as Fail does and throws Error; the weights are then
  // unchanged.
  void Add(std::span<const float> delta);
  // For a loop that trains a copy `own` of the weights, and has kept in `base` what it copied: adds
  // own - base as Add does, without rounding where nobody else has changed the weight, and then
  // copies the weights to both. All are as long as the weights.
  // Read the first copy after Join. Counts `iterations` (0 to 1,000,000), those of own - base that
  // CountAlone has not counted. If an element of own - base is not finite, does as Add; `own` and
  // `base` are then unchanged too.
  void Merge(std::span<float> own, std::span<float> base, int64_t iterations = 1);
  // If no other node takes part, and the last Update or Merge was in the last 0.1 s, counts one
  // iteration of such a loop and returns true: its progress may wait in `own` for a later Merge,
  // since nobody else needs it yet. A node that joins meanwhile gets it by that Merge. Otherwise
  // counts nothing and returns false: call Merge.
  bool CountAlone();
  // Iterations of all nodes, with those before the run. Any thread.
  int64_t iterations() const;

  // Factor of the learning rate of the next iteration, at least 1: ask for it in each. It is 1
  // unless the nodes average their progress (ClusterOptions::scaling), so that what all do in an
  // iteration moves the weights as far as if their progress were added. Smaller where nodes are
  // absent or exchanges are stale. Call it after Join.
  float rate_factor() const;

  // Members of the first segment that are in sync, with this node.
  int nodes() const;
  // Whether this node is the leader: the one that tests and saves for all.
  bool is_leader() const;
  // Copies the merged weights: those that all nodes agree on, without this node's unsent progress.
  // `to` is as long as the weights. Throws Error if a segment has failed.
  void ReadMerged(std::span<float> to);

  // Waits until all nodes have called Finish and have the same weights, then leaves. Does not wait
  // for nodes that have not started or are unresponsive. Throws Error if a segment has failed; and,
  // after leaving, with the names of the nodes, if others go on for 30 s and three times their
  // longest iteration, end with other weights, or ended with a loss that is not finite.
  void Finish();
  // Sends this node's unsent progress, then leaves. The other nodes continue.
  void Leave();
  // Publishes that this node has failed: the other nodes log the first line of `error` (200 bytes)
  // and no longer wait for this node. `not_finite`: its progress may have spoilt the weights, so
  // they also end their run with an error. Blocks until they have acknowledged it, at most 0.3 s.
  // Destroy the object afterwards.
  void Fail(const std::string& error, bool not_finite = false);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_H_
