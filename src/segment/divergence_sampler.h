// Walks over the chunks of a replica, a few at a time, and finds out how close it is to
// its masters. It only looks: at the exchange's table, and at copies of about a hundred
// chunks a second, which it asks the executor for, wherever they are.
#ifndef MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_
#define MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/duration_histogram.h"
#include "base/node_id.h"
#include "device/device.h"
#include "exchange/protocol/exchange.h"
#include "segment/divergence.h"

namespace millrace {

// For the thread that runs the exchange.
class DivergenceSampler {
 public:
  // A survey has so many steps, which are so far apart.
  static constexpr int64_t kSteps = 100, kStepNs = 10'000'000;

  // `executor` outlives this object, and `exchange`, which works with it, does so too.
  // `peers` are nodes below its max_nodes.
  DivergenceSampler(const Exchange* exchange, ChunkExecutor* executor,
                    std::span<const NodeId> peers);

  // Goes on with the survey if it is time for a step, which takes some microseconds. True
  // when that was the last one: there are new results. Allocates nothing. Not between a
  // Receive and what ends it (Exchange::has_inflight). Throws Error as the executor does.
  bool Sample(int64_t now_ns);
  // What the last survey found: of all peers' chunks, and by peer in the order given.
  const Divergence& all() const { return all_; }
  std::span<const Divergence> peers() const { return peers_; }

 private:
  // What the survey under way has found of a peer's chunks.
  struct Tally {
    uint64_t chunks = 0, sampled = 0;
    int64_t oldest_ns = 0;
    double squares = 0, largest = 0;
    DurationHistogram ages;

    void Add(const Tally& other);
  };

  void SampleChunks(uint32_t begin, uint32_t end, int64_t now_ns);
  bool Counts(const Chunk& chunk) const;
  void SampleWeights(uint32_t chunk, Tally* tally);
  void End(int64_t now_ns);
  Divergence Conclude(const Tally& tally, const DurationHistogram& round_trip,
                      double iterations_per_ns) const;

  const Exchange& exchange_;
  ChunkExecutor& executor_;
  Buffer copies_;  // of a chunk's weights, and of its master's as this node knows them
  const std::vector<NodeId> nodes_;
  std::vector<uint32_t> index_;                 // by node: of nodes_, or as many as there are
  std::vector<Tally> tallies_;                  // by the index in nodes_
  std::vector<DurationHistogram> round_trips_;  // up to the end of the last survey
  std::vector<Divergence> peers_;
  Divergence all_;
  uint64_t rounds_ = 0;
  int64_t step_ = 0;
  int64_t next_ns_ = INT64_MIN;
  int64_t begin_ns_ = 0;
  uint64_t begin_iterations_ = 0;  // of all nodes
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_
