#include "simulate/simulated_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exchange/protocol/frame.h"

namespace millrace::inline simulate {
namespace {

constexpr uint64_t kLossStream = 1000;

}  // namespace

SimulatedNetwork::SimulatedNetwork(const NetworkModel& model, size_t workers, uint64_t seed)
    : model_(model),
      seed_(seed),
      rng_(seed, {kLossStream}),
      sending_until_ns_(workers, 0),
      receiving_until_ns_(workers, 0) {}

void SimulatedNetwork::Restart(uint64_t part) {
  rng_ = Rng(seed_, {kLossStream, part});
  std::fill(sending_until_ns_.begin(), sending_until_ns_.end(), 0);
  std::fill(receiving_until_ns_.begin(), receiving_until_ns_.end(), 0);
}

void SimulatedNetwork::Send(uint16_t from, uint16_t to, std::span<const std::byte> head,
                            std::span<const std::byte> payload, int64_t now_ns,
                            std::vector<Arrival>* arrivals) {
  if (to != kAllNodes) return SendOne(from, to, head, payload, now_ns, arrivals);
  for (uint16_t each = 0; each < sending_until_ns_.size(); ++each) {
    if (each != from) SendOne(from, each, head, payload, now_ns, arrivals);
  }
}

void SimulatedNetwork::SendOne(uint16_t from, uint16_t to, std::span<const std::byte> head,
                               std::span<const std::byte> payload, int64_t now_ns,
                               std::vector<Arrival>* arrivals) {
  const size_t bytes = head.size() + payload.size() + kOverheadBytes;
  const auto on_link = static_cast<int64_t>(static_cast<double>(bytes) * 8e3 / model_.max_mbps);
  int64_t& sending = sending_until_ns_[from];
  sending = std::max(sending, now_ns) + on_link;
  bytes_sent_ += bytes;
  // Drawn for every frame, so that loss changes nothing else of the stream.
  const bool lost = rng_.Uniform() < model_.loss;
  // The switch passes a frame on while it receives it; frames for one receiver wait for each other.
  const auto delay = static_cast<int64_t>(model_.delay_ms * 1e6);
  const bool exists = to < receiving_until_ns_.size();
  if (lost || !exists || receiving_until_ns_[to] - (sending + delay) > kMaxWaitNs) {
    ++frames_lost_;
    return;
  }
  int64_t& receiving = receiving_until_ns_[to];
  receiving = std::max(sending + delay, receiving + on_link);
  Arrival arrival{receiving, to, {}};
  arrival.frame.resize(head.size() + payload.size());
  std::memcpy(arrival.frame.data(), head.data(), head.size());
  if (!payload.empty()) {
    std::memcpy(arrival.frame.data() + head.size(), payload.data(), payload.size());
  }
  arrivals->push_back(std::move(arrival));
}

}  // namespace millrace::inline simulate
