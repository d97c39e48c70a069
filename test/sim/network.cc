#include "test/sim/network.h"

#include <algorithm>
#include <cstring>

#include "exchange/frame.h"

namespace millrace::sim {
namespace {

constexpr uint64_t kNetwork = 2;  // the stream of random numbers

}  // namespace

Network::Network(uint64_t seed, uint16_t nodes, const LinkFaults& faults)
    : rng_(seed, {kNetwork}), faults_(faults), queues_(nodes) {}

void Network::Transmit(uint16_t from, uint16_t to, std::span<const std::byte> head,
                       std::span<const std::byte> payload, int64_t now) {
  Packet packet;
  packet.bytes = head.size() + payload.size();
  packet.words.resize((packet.bytes + 7) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(packet.words.data());
  std::memcpy(bytes, head.data(), head.size());
  if (!payload.empty()) std::memcpy(bytes + head.size(), payload.data(), payload.size());
  for (uint16_t node = 0; node < queues_.size(); ++node) {
    if (node != from && (to == kAllNodes || to == node)) Send(from, node, packet, now);
  }
}

void Network::Send(uint16_t from, uint16_t to, const Packet& packet, int64_t now) {
  if (((cut_ >> from % 64) ^ (cut_ >> to % 64)) & 1) return;
  const int copies = rng_.Uniform() < faults_.duplicate ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const int64_t spread = faults_.delay_max - faults_.delay_min;
    const int64_t delay = faults_.delay_min + (spread > 0 ? rng_.Below(spread + 1) : 0);
    if (rng_.Uniform() < faults_.loss) continue;
    if (static_cast<int64_t>(queues_[to].size()) >= faults_.queue) continue;
    Packet arriving = packet;
    if (rng_.Uniform() < faults_.corrupt) {
      auto* bytes = reinterpret_cast<std::byte*>(arriving.words.data());
      bytes[rng_.Below(arriving.bytes)] ^= static_cast<std::byte>(1 << rng_.Below(8));
    }
    queues_[to].emplace(now + delay, std::move(arriving));
  }
}

std::vector<Packet> Network::Arrived(uint16_t to, int64_t now) {
  std::vector<Packet> packets;
  auto& queue = queues_[to];
  const auto end = queue.upper_bound(now);
  for (auto it = queue.begin(); it != end; ++it) packets.push_back(std::move(it->second));
  queue.erase(queue.begin(), end);
  return packets;
}

void Network::Clear(uint16_t to) { queues_[to].clear(); }

void Network::Heal() {
  faults_.loss = faults_.duplicate = faults_.corrupt = 0;
  cut_ = 0;
}

bool Network::empty() const {
  return std::all_of(queues_.begin(), queues_.end(), [](const auto& q) { return q.empty(); });
}

}  // namespace millrace::sim
