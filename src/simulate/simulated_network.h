// The network of a simulation: each worker has a full-duplex link of limited rate to one switch.
// Frames take time to leave and to arrive, and are lost at random.
#ifndef MILLRACE_SIMULATE_SIMULATED_NETWORK_H_
#define MILLRACE_SIMULATE_SIMULATED_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"

namespace millrace::inline simulate {

struct NetworkModel {
  double max_mbps = 1000;  // of each link, in each direction; above 0
  double delay_ms = 0.1;   // from one worker to another, beside the time on the links
  double loss = 0;         // share of the frames that are lost, 0 to 1
};

// Bytes of the headers of IPv4 and UDP: what the payload of a packet leaves of the MTU.
inline constexpr int kIpUdpBytes = 20 + 8;

// Not thread-safe. Deterministic: behaviour depends on the model, the seed and the calls.
class SimulatedNetwork {
 public:
  struct Arrival {
    int64_t at_ns = 0;
    uint16_t to = 0;
    std::vector<std::byte> frame;  // aligned for any type
  };

  // Bytes of a packet beside its own: Ethernet (preamble, header, checksum, gap), IP and UDP.
  static constexpr size_t kOverheadBytes = 38 + kIpUdpBytes;
  // A frame that would wait longer at the switch for other frames to its receiver is lost: the
  // buffers of switches and routers are finite.
  static constexpr int64_t kMaxWaitNs = 1'000'000'000;

  SimulatedNetwork(const NetworkModel& model, size_t workers, uint64_t seed);

  // Begins anew at time 0 with the random numbers of `part` of the run, which counts from 1. The
  // counters stay.
  void Restart(uint64_t part);

  // When `worker` has sent all that it was given.
  int64_t FreeAt(uint16_t worker) const { return sending_until_ns_[worker]; }
  // Sends a frame, with overhead for its headers, to one worker, or one copy after the other to all
  // but `from` (kAllNodes). Appends those that arrive, in order of arrival for each receiver.
  void Send(uint16_t from, uint16_t to, std::span<const std::byte> head,
            std::span<const std::byte> payload, int64_t now_ns, std::vector<Arrival>* arrivals);

  // Bytes on the links of all workers together, headers included.
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t frames_lost() const { return frames_lost_; }

 private:
  void SendOne(uint16_t from, uint16_t to, std::span<const std::byte> head,
               std::span<const std::byte> payload, int64_t now_ns, std::vector<Arrival>* arrivals);

  const NetworkModel model_;
  const uint64_t seed_;
  Rng rng_;
  std::vector<int64_t> sending_until_ns_, receiving_until_ns_;  // by worker
  uint64_t bytes_sent_ = 0, frames_lost_ = 0;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATED_NETWORK_H_
