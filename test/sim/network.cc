#include "test/sim/network.h"

#include <algorithm>
#include <utility>

namespace millrace::sim {
namespace {

constexpr uint64_t kNetwork = 2, kDirection = 14;  // random streams

}  // namespace

Network::Network(uint64_t seed, size_t nodes, const LinkFaults& faults, size_t largest_bytes)
    : seed_(seed),
      rng_(seed, {kNetwork}),
      faults_(faults),
      largest_bytes_(largest_bytes),
      queues_(nodes) {}

void Network::Transmit(NodeId from, NodeId to, std::span<const std::byte> head,
                       std::span<const std::byte> payload, int64_t now) {
  const FrameBytes frame(head, payload);
  for (NodeId node = 0; node < queues_.size(); ++node) {
    if (node == from || (to != kAllNodes && to != node)) continue;
    if (!delivers || delivers(from, node, frame)) Send(from, node, frame, now);
  }
}

bool Network::IsBroken(NodeId from, NodeId to, bool is_largest, int64_t now) const {
  return std::any_of(breaks_.begin(), breaks_.end(), [&](const BrokenLinks& broken) {
    return broken.from == from && (broken.mask >> to % 64 & 1) && now < broken.until &&
           (is_largest || !broken.largest_only);
  });
}

bool Network::Carries(NodeId from, NodeId to, int64_t now) const {
  return !IsPartitioned(from, to) && !IsBroken(from, to, true, now);
}

double Network::LossOf(NodeId from, NodeId to) const {
  if (!faults_.uneven_loss) return faults_.loss;
  return faults_.loss * 2 * Rng(seed_, {kDirection, from, to}).Uniform();
}

void Network::Send(NodeId from, NodeId to, const FrameBytes& frame, int64_t now) {
  if (IsPartitioned(from, to)) return;
  if (IsBroken(from, to, frame.view().size() >= largest_bytes_, now)) return;
  const int copies = rng_.Uniform() < faults_.duplicate ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const int64_t spread = faults_.delay_max - faults_.delay_min;
    const int64_t delay = faults_.delay_min + (spread > 0 ? rng_.Below(spread + 1) : 0);
    if (rng_.Uniform() < LossOf(from, to)) continue;
    if (static_cast<int64_t>(queues_[to].size()) >= faults_.queue) continue;
    FrameBytes arriving = frame;
    if (rng_.Uniform() < faults_.corrupt) {
      std::byte& byte = arriving.data()[rng_.Below(arriving.view().size())];
      byte ^= static_cast<std::byte>(1 << rng_.Below(8));
    }
    queues_[to].emplace(now + delay, Arrival{from, std::move(arriving)});
  }
}

std::vector<Network::Arrival> Network::Arrived(NodeId to, int64_t now) {
  std::vector<Arrival> arrivals;
  auto& queue = queues_[to];
  const auto end = queue.upper_bound(now);
  for (auto it = queue.begin(); it != end; ++it) arrivals.push_back(std::move(it->second));
  queue.erase(queue.begin(), end);
  return arrivals;
}

void Network::Heal() {
  faults_.loss = faults_.duplicate = faults_.corrupt = 0;
  partition_ = 0;
  breaks_.clear();
}

bool Network::empty() const {
  return std::all_of(queues_.begin(), queues_.end(), [](const auto& q) { return q.empty(); });
}

}  // namespace millrace::sim
