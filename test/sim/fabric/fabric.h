// Times and bytes of ports on one switch.
//
// A port sends packets one after the other at its own rate. A packet reaches the switch when its
// last byte has left the sender. `latency_ns` later it enters the queue of its output port,
// which delivers at the receiver's rate. A multicast leaves the sender once and enters the
// queues of all ports of its group at the same time: the switch copies at full rate. Queues are
// unbounded and lossless, as with link-level flow control; the fabric records their maximum
// depth.
//
// Not thread-safe. All times in ns from an arbitrary origin, never decreasing.
#ifndef MILLRACE_TEST_SIM_FABRIC_FABRIC_H_
#define MILLRACE_TEST_SIM_FABRIC_FABRIC_H_

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

namespace millrace::sim {

struct PortRates {
  double out_bytes_per_second = 12.5e9;
  double in_bytes_per_second = 12.5e9;
};

struct PortCounts {
  uint64_t packets_out = 0, packets_in = 0;
  int64_t bytes_out = 0, bytes_in = 0;  // passed to Send or Multicast, and taken
  int64_t deepest_queue_bytes = 0;      // maximum that the switch held for this port at once
};

class Fabric {
 public:
  Fabric(uint16_t ports, const PortRates& rates, int64_t latency_ns);

  // Adds a set of ports to multicast to and returns its number. A port does not deliver to
  // itself.
  int AddGroup(std::vector<uint16_t> ports);

  // Queues a packet of `bytes` at the sending port `from`. `cargo` is an opaque value of the
  // caller; each destination port delivers it once.
  void Send(uint16_t from, uint16_t to, int64_t bytes, uint32_t cargo, int64_t now);
  void Multicast(uint16_t from, int group, int64_t bytes, uint32_t cargo, int64_t now);
  // Time in ns until the port has sent all that was queued.
  int64_t BacklogNs(uint16_t from, int64_t now) const;

  // Takes the earliest packet that has arrived at `to` by `now`. Returns false if there is none.
  bool Take(uint16_t to, int64_t now, uint32_t* cargo);
  // Arrival time of the next packet in the output queue of `to`; INT64_MAX if the queue is
  // empty.
  int64_t NextArrival(uint16_t to) const {
    const std::deque<Arrival>& arrivals = ports_[to].arrivals;
    return arrivals.empty() ? INT64_MAX : arrivals.front().at;
  }
  // Time of the next known event: a packet reaches an output queue or a port. INT64_MAX if no
  // packet is in flight.
  int64_t NextEvent() const;
  // Processes all events up to `now`. Call before Take.
  void Advance(int64_t now);

  const PortCounts& counts(uint16_t port) const { return ports_[port].counts; }
  bool idle() const { return NextEvent() == INT64_MAX; }

 private:
  struct Arrival {
    int64_t at, bytes;
    uint32_t cargo;
  };
  struct Port {
    int64_t out_free = 0, in_free = 0;
    std::deque<Arrival> arrivals;
    PortCounts counts;
  };
  struct Transit {
    int64_t at;         // when it enters its output queue
    uint64_t sequence;  // breaks ties
    int64_t bytes;
    uint32_t cargo;
    uint16_t from;
    int to;  // a port, or ~group
    bool operator>(const Transit& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  void Leave(uint16_t from, int to, int64_t bytes, uint32_t cargo, int64_t now);
  void Queue(uint16_t to, const Transit& transit);

  const PortRates rates_;
  const int64_t latency_ns_;
  std::vector<Port> ports_;
  std::vector<std::vector<uint16_t>> groups_;
  std::priority_queue<Transit, std::vector<Transit>, std::greater<Transit>> transits_;
  uint64_t sequence_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FABRIC_FABRIC_H_
