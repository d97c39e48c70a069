// Simulated links between nodes: frames on their way, and what befalls them.
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

// Not thread-safe. All that happens is a function of the seed and the calls.
class Network {
 public:
  // `largest_bytes`: the size from which on a frame counts as one of the largest.
  Network(uint64_t seed, uint16_t nodes, const LinkFaults& faults, size_t largest_bytes);

  // Puts a frame on the wire at tick `now`: to one node, or to all but `from`.
  void Transmit(uint16_t from, uint16_t to, std::span<const std::byte> head,
                std::span<const std::byte> payload, int64_t now);
  // Takes what has arrived at `to` by tick `now`.
  std::vector<FrameBytes> Arrived(uint16_t to, int64_t now);
  // Nothing that comes in until then is heard; what is under way is lost.
  void Clear(uint16_t to);
  // Nodes whose bits differ do not hear each other; 0: all do.
  void Partition(uint64_t mask) { cut_ = mask; }
  // Until tick `until` nodes whose bit in `mask` is set do not hear `from`, or only its smaller
  // frames.
  void Break(uint16_t from, uint64_t mask, bool largest_only, int64_t until) {
    breaks_.push_back({from, mask, largest_only, until});
  }
  // `to` gets all frames of `from`, but for random loss.
  bool Carries(uint16_t from, uint16_t to, int64_t now) const;
  // No more faults, from now on.
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
