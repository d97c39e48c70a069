// Simulated network: frames in flight between nodes, faults of links, partitions.
#ifndef MILLRACE_TEST_SIM_NETWORK_H_
#define MILLRACE_TEST_SIM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/rng.h"
#include "millrace/node_id.h"
#include "test/sim/frame_bytes.h"

namespace millrace::sim {

inline constexpr int64_t kMs = 1'000'000;  // ns

// Faults of all links. Probabilities apply to each frame and receiver. Times are in ticks, whose
// length the caller chooses.
struct LinkFaults {
  double loss = 0;
  // Each direction of a link has a loss rate of its own, between 0 and twice `loss`.
  bool uneven_loss = false;
  double duplicate = 0;
  double corrupt = 0;
  int64_t delay_min = 1, delay_max = 1;  // ticks; a spread reorders frames
  int64_t rate = 64;                     // maximum frames that a node sends in a tick
  int64_t queue = 4096;                  // maximum frames queued for a receiver; more are dropped
  bool operator==(const LinkFaults&) const = default;
};

// Not thread-safe. Deterministic: behaviour depends only on the seed and the calls.
class Network {
 public:
  // A frame that has arrived.
  struct Arrival {
    NodeId from = 0;
    FrameBytes frame;
    std::span<const std::byte> view() const { return frame.view(); }
  };

  // Frames of at least `largest_bytes` count as largest (Break).
  Network(uint64_t seed, size_t nodes, const LinkFaults& faults = {},
          size_t largest_bytes = SIZE_MAX);

  // Called for every frame and receiver before the faults apply, if set. Returns false if the frame
  // is lost.
  std::function<bool(NodeId from, NodeId to, const FrameBytes& frame)> delivers;

  // Sends a frame at tick `now` to one node, or to all nodes except `from`.
  void Transmit(NodeId from, NodeId to, std::span<const std::byte> head,
                std::span<const std::byte> payload, int64_t now);
  // Adds a frame that arrives at `at`, without faults.
  void Inject(NodeId from, NodeId to, const FrameBytes& frame, int64_t at) {
    queues_[to].emplace(at, Arrival{from, frame});
  }
  // Takes the frames that have arrived at `to` by tick `now`, ordered by arrival.
  std::vector<Arrival> Arrived(NodeId to, int64_t now);
  // Discards all frames in flight to `to`.
  void Clear(NodeId to) { queues_[to].clear(); }
  // Drops frames between nodes whose bits in `mask` differ; 0: drops none.
  void Partition(uint64_t mask) { partition_ = mask; }
  // Until tick `until`, drops frames from `from` to the nodes whose bit in `mask` is set; with
  // `largest_only`, drops only its largest frames.
  void Break(NodeId from, uint64_t mask, bool largest_only, int64_t until) {
    breaks_.push_back({from, mask, largest_only, until});
  }
  // Returns true if `to` receives all frames of `from`, apart from random loss.
  bool Carries(NodeId from, NodeId to, int64_t now) const;
  void set_faults(const LinkFaults& faults) { faults_ = faults; }
  // Ends loss, duplication, corruption, the partition and broken links.
  void Heal();
  // Returns true if no frame is in flight.
  bool empty() const;

 private:
  struct BrokenLinks {
    NodeId from = 0;
    uint64_t mask = 0;
    bool largest_only = false;
    int64_t until = 0;
  };

  double LossOf(NodeId from, NodeId to) const;
  bool IsPartitioned(NodeId from, NodeId to) const {
    return ((partition_ >> from % 64) ^ (partition_ >> to % 64)) & 1;
  }
  bool IsBroken(NodeId from, NodeId to, bool is_largest, int64_t now) const;
  void Send(NodeId from, NodeId to, const FrameBytes& frame, int64_t now);

  const uint64_t seed_;
  Rng rng_;
  LinkFaults faults_;
  const size_t largest_bytes_;
  uint64_t partition_ = 0;
  std::vector<BrokenLinks> breaks_;
  std::vector<std::multimap<int64_t, Arrival>> queues_;  // by receiver: tick of arrival
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_NETWORK_H_
