#include "test/sim/fabric/fabric.h"

#include <algorithm>
#include <cmath>

namespace millrace::sim {
namespace {

int64_t NsOf(int64_t bytes, double bytes_per_second) {
  return std::llround(static_cast<double>(bytes) / bytes_per_second * 1e9);
}

}  // namespace

Fabric::Fabric(uint16_t ports, const PortRates& rates, int64_t latency_ns)
    : rates_(rates), latency_ns_(latency_ns), ports_(ports) {}

int Fabric::AddGroup(std::vector<uint16_t> ports) {
  groups_.push_back(std::move(ports));
  return static_cast<int>(groups_.size()) - 1;
}

void Fabric::Send(uint16_t from, uint16_t to, int64_t bytes, uint32_t cargo, int64_t now) {
  Leave(from, to, bytes, cargo, now);
}

void Fabric::Multicast(uint16_t from, int group, int64_t bytes, uint32_t cargo, int64_t now) {
  Leave(from, ~group, bytes, cargo, now);
}

void Fabric::Leave(uint16_t from, int to, int64_t bytes, uint32_t cargo, int64_t now) {
  Port& port = ports_[from];
  port.out_free = std::max(port.out_free, now) + NsOf(bytes, rates_.out_bytes_per_second);
  ++port.counts.packets_out;
  port.counts.bytes_out += bytes;
  transits_.push({port.out_free + latency_ns_, sequence_++, bytes, cargo, from, to});
}

int64_t Fabric::BacklogNs(uint16_t from, int64_t now) const {
  return std::max<int64_t>(ports_[from].out_free - now, 0);
}

void Fabric::Queue(uint16_t to, const Transit& transit) {
  Port& port = ports_[to];
  port.in_free =
      std::max(port.in_free, transit.at) + NsOf(transit.bytes, rates_.in_bytes_per_second);
  const auto waiting = static_cast<int64_t>(static_cast<double>(port.in_free - transit.at) * 1e-9 *
                                            rates_.in_bytes_per_second);
  port.counts.deepest_queue_bytes = std::max(port.counts.deepest_queue_bytes, waiting);
  port.arrivals.push_back({port.in_free, transit.bytes, transit.cargo});
}

void Fabric::Advance(int64_t now) {
  while (!transits_.empty() && transits_.top().at <= now) {
    const Transit transit = transits_.top();
    transits_.pop();
    if (transit.to >= 0) {
      Queue(static_cast<uint16_t>(transit.to), transit);
      continue;
    }
    for (const uint16_t to : groups_[~transit.to]) {
      if (to != transit.from) Queue(to, transit);
    }
  }
}

bool Fabric::Take(uint16_t to, int64_t now, uint32_t* cargo) {
  Port& port = ports_[to];
  std::deque<Arrival>& arrivals = port.arrivals;
  if (arrivals.empty() || arrivals.front().at > now) return false;
  *cargo = arrivals.front().cargo;
  ++port.counts.packets_in;
  port.counts.bytes_in += arrivals.front().bytes;
  arrivals.pop_front();
  return true;
}

int64_t Fabric::NextEvent() const {
  int64_t next = transits_.empty() ? INT64_MAX : transits_.top().at;
  for (const Port& port : ports_) {
    if (!port.arrivals.empty()) next = std::min(next, port.arrivals.front().at);
  }
  return next;
}

}  // namespace millrace::sim
