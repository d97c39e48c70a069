// Simulated links between nodes: frames in flight and faults.
#ifndef MILLRACE_TEST_SIM_NETWORK_H_
#define MILLRACE_TEST_SIM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/rng.h"
#include "test/sim/scenario.h"
#include "test/support/exchange_node.h"

namespace millrace::sim {

using test::FrameBytes;

// Not thread-safe. Deterministic: behaviour depends only on the seed and the calls.
class Network {
 public:
  // Frames of at least `largest_bytes` count as largest (LinkFaults, Break).
  Network(uint64_t seed, uint16_t nodes, const LinkFaults& faults, size_t largest_bytes);

  // Sends a frame at tick `now` to one node, or to all nodes except `from`.
  void Transmit(uint16_t from, uint16_t to, std::span<const std::byte> head,
                std::span<const std::byte> payload, int64_t now);
  // Takes the frames that have arrived at `to` by tick `now`.
  std::vector<FrameBytes> Arrived(uint16_t to, int64_t now);
  // Discards all frames in flight to `to`.
  void Clear(uint16_t to);
  // Drops frames between nodes whose bits in `mask` differ; 0: drops none.
  void Partition(uint64_t mask) { cut_ = mask; }
  // Until tick `until`, drops frames from `from` to the nodes whose bit in `mask` is set; with
  // `largest_only`, drops only its largest frames.
  void Break(uint16_t from, uint64_t mask, bool largest_only, int64_t until) {
    breaks_.push_back({from, mask, largest_only, until});
  }
  // Returns true if `to` receives all frames of `from`, apart from random loss.
  bool Carries(uint16_t from, uint16_t to, int64_t now) const;
  // Ends loss, duplication, corruption, the partition and broken links.
  void Heal();
  bool empty() const;

 private:
  struct BrokenLinks {
    uint16_t from = 0;
    uint64_t mask = 0;
    bool largest_only = false;
    int64_t until = 0;
  };

  bool IsBroken(uint16_t from, uint16_t to, bool is_largest, int64_t now) const;
  void Send(uint16_t from, uint16_t to, const FrameBytes& frame, int64_t now);

  Rng rng_;
  LinkFaults faults_;
  const size_t largest_bytes_;
  uint64_t cut_ = 0;
  std::vector<BrokenLinks> breaks_;
  std::vector<std::multimap<int64_t, FrameBytes>> queues_;  // by receiver: tick of arrival
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_NETWORK_H_
