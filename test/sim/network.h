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
  Network(uint64_t seed, uint16_t nodes, const LinkFaults& faults);

  // Puts a frame on the wire at tick `now`: to one node, or to all but `from`.
  void Transmit(uint16_t from, uint16_t to, std::span<const std::byte> head,
                std::span<const std::byte> payload, int64_t now);
  // Takes what has arrived at `to` by tick `now`.
  std::vector<FrameBytes> Arrived(uint16_t to, int64_t now);
  // Nothing that comes in until then is heard; what is under way is lost.
  void Clear(uint16_t to);
  // Nodes whose bits differ do not hear each other; 0: all do.
  void Cut(uint64_t mask) { cut_ = mask; }
  // No more faults, from now on.
  void Heal();
  bool empty() const;

 private:
  void Send(uint16_t from, uint16_t to, const FrameBytes& frame, int64_t now);

  Rng rng_;
  LinkFaults faults_;
  uint64_t cut_ = 0;
  std::vector<std::multimap<int64_t, FrameBytes>> queues_;  // by receiver: tick of arrival
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_NETWORK_H_
