// Ports on one switch, as a matter of times and bytes.
//
// A port sends at its own rate, one packet behind the other; a packet reaches the switch
// when its last byte has left, and `latency_ns` later it stands in the queue of its output
// port, which delivers at the rate of the port behind it. A multicast leaves the sender once
// and stands in the queue of every port of its group at the same time: the switch copies at
// full rate. Queues have no bound and nothing is lost, as where links hold their senders
// back; how deep they became is counted.
//
// Not thread-safe. All times in ns, from any origin, never falling.
#ifndef MILLRACE_TEST_FABRIC_FABRIC_H_
#define MILLRACE_TEST_FABRIC_FABRIC_H_

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

namespace millrace::fabric {

struct PortRates {
  double out_bytes_per_second = 12.5e9;
  double in_bytes_per_second = 12.5e9;
};

struct PortCounts {
  uint64_t packets_out = 0, packets_in = 0;
  int64_t bytes_out = 0, bytes_in = 0;  // that were given to it, or taken
  int64_t deepest_queue_bytes = 0;      // of what the switch held for it at once
};

class Fabric {
 public:
  Fabric(uint16_t ports, const PortRates& rates, int64_t latency_ns);

  // A set of ports to multicast to; a port does not deliver to itself. Its number.
  int AddGroup(std::vector<uint16_t> ports);

  // Puts a packet of `bytes` behind what `from` has to send. `cargo` is the caller's: it is
  // handed out once at each port that the packet arrives at.
  void Send(uint16_t from, uint16_t to, int64_t bytes, uint32_t cargo, int64_t now);
  void Multicast(uint16_t from, int group, int64_t bytes, uint32_t cargo, int64_t now);
  // How long a port is busy with what it was given.
  int64_t BacklogNs(uint16_t from, int64_t now) const;

  // Whether a packet has arrived at `to` by `now`; takes the earliest.
  bool Take(uint16_t to, int64_t now, uint32_t* cargo);
  // When the next packet arrives at `to` of those that are in its queue; INT64_MAX if none is.
  int64_t NextArrival(uint16_t to) const {
    const std::deque<Arrival>& arrivals = ports_[to].arrivals;
    return arrivals.empty() ? INT64_MAX : arrivals.front().at;
  }
  // When the next thing happens that is known of: a packet reaches the switch or a port.
  // INT64_MAX if nothing is under way.
  int64_t NextEvent() const;
  // Lets happen what happens until `now`. To be called before Take.
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
    int64_t at;         // when it stands in its output queue
    uint64_t sequence;  // which of several at once is first
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

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_FABRIC_H_
