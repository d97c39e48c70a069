// Samples how far a replica diverges from its masters, a few chunks at a time. Sampling changes no
// state: it reads the exchange's table, and copies of about 100 chunks a second that the executor
// makes, in any memory.
#ifndef MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_
#define MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/duration_histogram.h"
#include "exchange/protocol/exchange.h"
#include "millrace/device.h"
#include "millrace/node_id.h"
#include "segment/divergence.h"

namespace millrace::inline segment {

// For the thread that runs the exchange only.
class DivergenceSampler {
 public:
  // Number of steps in a round over all chunks, and the interval between steps.
  static constexpr int64_t kSteps = 100, kStepNs = 10'000'000;

  // `executor` and the `exchange` that uses it outlive this object. `peers` are below its
  // max_nodes.
  DivergenceSampler(const Exchange* exchange, ChunkExecutor* executor,
                    std::span<const NodeId> peers);

  // Performs the next step if it is due, which takes some microseconds. True after the last step of
  // a round: there are new results. Allocates nothing. Not between Exchange::Receive and the end of
  // its batch (Exchange::has_inflight). Throws Error as the executor does.
  bool Sample(int64_t now_ns);
  // Results of the last round: over the chunks of all peers, and by peer in the order given.
  const Divergence& all() const { return all_; }
  std::span<const Divergence> peers() const { return peers_; }

 private:
  // Results of the current round for the chunks of one peer.
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
  Buffer copies_;  // of a chunk's weights, and of its master's as last received
  const std::vector<NodeId> nodes_;
  std::vector<uint32_t> index_;                 // by node: index in nodes_; nodes_.size(): no peer
  std::vector<Tally> tallies_;                  // by index in nodes_
  std::vector<DurationHistogram> round_trips_;  // by index in nodes_, as of the last round
  std::vector<Divergence> peers_;
  Divergence all_;
  uint64_t rounds_ = 0;
  int64_t step_ = 0;
  int64_t next_ns_ = INT64_MIN;
  int64_t begin_ns_ = 0;
  uint64_t begin_iterations_ = 0;  // of all nodes
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_DIVERGENCE_SAMPLER_H_
