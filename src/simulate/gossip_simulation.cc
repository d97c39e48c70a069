// Workers that average their weights in pairs (strategy gossip), without a center: GoSGD (Blot et
// al. 2016) over the simulated network. After an iteration, when its sync condition fires, a worker
// sends its weights to a peer that it draws, in packets that each have half of the mass of their
// chunk (strategy/gossip_rules.h); with a rule, together with its slow weights by the same file's,
// and the receiver alone takes a step. While its link is still sending, it waits for another
// iteration.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "simulate/simulation_core.h"
#include "strategy/gossip_rules.h"

namespace millrace::inline simulate {
namespace {

constexpr uint64_t kPeerStream = 1002;

class GossipSimulation : public SimulationCore {
 public:
  GossipSimulation(const SolverConfig& solver, const SimulationOptions& given,
                   const GossipPlan& plan)
      : SimulationCore(solver, given),
        rule_(plan.rule),
        chunk_floats_((given.mtu - kIpUdpBytes - static_cast<int>(sizeof(Head))) /
                      static_cast<int>(sizeof(float)) / (rule_ ? 2 : 1)) {
    MakeWorkers([&](WorkerConfig* worker) {
      worker->make_strategy = [this](WorkerWeights weights) -> std::unique_ptr<SimulatedStrategy> {
        return std::make_unique<DeferredStrategy>(std::move(weights), schedule(), 0);
      };
    });
    const size_t chunks = (weights().size() + chunk_floats_ - 1) / chunk_floats_;
    for (int w = 0; w < workers(); ++w) {
      peers_.push_back({plan.conditions.Make(), std::vector<double>(chunks, 1.0), weights()});
      if (!rule_) continue;
      peers_.back().slow = weights();
      peers_.back().velocity.resize(weights().size());
    }
  }

 private:
  struct Head {
    double mass = 0;
    uint64_t chunk = 0;
  };
  struct Peer {
    SyncConditions conditions;
    std::vector<double> masses;                   // by chunk
    std::vector<float> base;                      // the weights when it has sent last
    std::vector<float> slow = {}, velocity = {};  // of a rule, else empty
    int64_t since = 0;                            // own iterations since then
    MergeTime sent = {};
    uint64_t round = 0;
  };

  void Train() override {
    StartAll();
    while (!AllFinished()) Step();
  }

  void AfterIteration(int w) override {
    if (!several()) return;
    Peer& peer = peers_[w];
    ++peer.since;
    const SyncState state{.iterations = peer.since,
                          .shared_iterations = completed() - peer.sent.iterations,
                          .seconds = Now().seconds - peer.sent.seconds,
                          .weights = worker(w).weights(),
                          .base = peer.base};
    if (!peer.conditions.empty() && !peer.conditions.Fires(state)) return;
    if (network().FreeAt(static_cast<uint16_t>(w)) > now_ns()) return;
    peer.conditions.Merging(state);
    Send(w);
    peer.base = worker(w).weights();
    peer.since = 0;
    peer.sent = Now();
  }

  void Send(int w) {
    Peer& peer = peers_[w];
    Rng rng(options().seed, {kPeerStream, static_cast<uint64_t>(w), peer.round++});
    auto to = static_cast<uint16_t>(rng.Below(static_cast<uint64_t>(workers() - 1)));
    if (to >= w) ++to;
    std::vector<SimulatedNetwork::Arrival> arrivals;
    for (size_t c = 0; c < peer.masses.size(); ++c) {
      const Head head{rule_ ? 1 : TakeHalf(&peer.masses[c]), c};
      const std::span<const float> chunk = ChunkOf(w, c);
      payload_.assign(chunk.begin(), chunk.end());
      if (rule_) {
        const float* const slow = peer.slow.data() + c * chunk_floats_;
        payload_.insert(payload_.end(), slow, slow + chunk.size());
      }
      network().Send(static_cast<uint16_t>(w), to, std::as_bytes(std::span(&head, 1)),
                     std::as_bytes(std::span<const float>(payload_)), now_ns(), &arrivals);
    }
    for (SimulatedNetwork::Arrival& arrival : arrivals) {
      ++in_flight_;
      At(arrival.at_ns, [this, to, bytes = std::move(arrival.frame)] { Receive(to, bytes); });
    }
  }

  void Receive(int w, const std::vector<std::byte>& frame) {
    --in_flight_;
    Head head;
    std::memcpy(&head, frame.data(), sizeof(head));
    const std::span<float> chunk = ChunkOf(w, head.chunk);
    arrived_.resize((rule_ ? 2 : 1) * chunk.size());
    std::memcpy(arrived_.data(), frame.data() + sizeof(head), arrived_.size() * sizeof(float));
    if (rule_)
      return StepWith(std::span<const float>(arrived_).first(chunk.size()),
                      std::span<const float>(arrived_).subspan(chunk.size()), chunk,
                      head.chunk * chunk_floats_, &peers_[w]);
    MergeByMass(head.mass, static_cast<int64_t>(chunk.size()), arrived_.data(),
                &peers_[w].masses[head.chunk], chunk.data());
  }

  // The receiver's part of a merge (strategy/gossip_rules.h).
  void StepWith(std::span<const float> weights, std::span<const float> slow, std::span<float> own,
                size_t begin, Peer* peer) const {
    for (size_t i = 0; i < own.size(); ++i) {
      float& own_slow = peer->slow[begin + i];
      rule_->Step(rule_->MeansOf(own[i], own_slow, weights[i], slow[i]), &own[i], &own_slow,
                  &peer->velocity[begin + i]);
    }
  }

  std::span<float> ChunkOf(int w, size_t chunk) {
    std::vector<float>& of = worker(w).weights();
    const size_t begin = chunk * chunk_floats_;
    return {of.data() + begin, std::min(of.size() - begin, static_cast<size_t>(chunk_floats_))};
  }

  void ComeToRest() override {
    while (in_flight_ > 0) Step();
  }

  // All become the mean of all, weighted by their masses.
  void MergeAll() override {
    std::vector<float> mean(weights().size());
    ReadMerged(&mean);
    for (int w = 0; w < workers(); ++w) {
      std::copy(mean.begin(), mean.end(), worker(w).weights().begin());
    }
  }

  void ReadMerged(std::vector<float>* merged) override {
    std::copy(weights().begin(), weights().end(), merged->begin());
    for (size_t c = 0; c < peers_[0].masses.size(); ++c) {
      double mass = peers_[0].masses[c];
      for (int w = 1; w < workers(); ++w) {
        const std::span<float> chunk = ChunkOf(w, c);
        MergeByMass(peers_[w].masses[c], static_cast<int64_t>(chunk.size()), chunk.data(), &mass,
                    merged->data() + c * chunk_floats_);
      }
    }
  }

  void ExportPart(int w, SolverPart* part) const override {
    const Peer& peer = peers_[w];
    AddArray("weights", worker(w).weights(), part);
    AddNumbers("masses", peer.masses, part);
    const double sent[] = {static_cast<double>(peer.since),
                           static_cast<double>(completed() - peer.sent.iterations),
                           static_cast<double>(peer.round)};
    AddNumbers("sent", sent, part);
    const double seconds[] = {Now().seconds - peer.sent.seconds};
    AddNumbers("sent_seconds", seconds, part);
    peer.conditions.Export(part);
    if (!peer.conditions.empty()) AddArray("base", peer.base, part);
    if (!rule_) return;
    AddArray("slow", peer.slow, part);
    AddArray("velocity", peer.velocity, part);
  }

  void RestorePart(int w, const StateReader& part) override {
    Peer& peer = peers_[w];
    std::vector<float>& weights = worker(w).weights();
    const std::span<const float> own = part.Array("weights", weights.size());
    std::copy(own.begin(), own.end(), weights.begin());
    const std::span<const double> masses = part.Numbers("masses", peer.masses.size());
    std::copy(masses.begin(), masses.end(), peer.masses.begin());
    const std::vector<int64_t> sent = part.Counts("sent", 3);
    peer.since = sent[0];
    peer.sent.iterations = completed() - sent[1];
    peer.sent.seconds = Now().seconds - part.Numbers("sent_seconds", 1)[0];
    peer.round = static_cast<uint64_t>(sent[2]);
    peer.conditions.Restore(part);
    const auto restore = [&](const char* name, std::vector<float>* to) {
      const std::span<const float> from = part.Array(name, weights.size());
      to->assign(from.begin(), from.end());
    };
    if (!peer.conditions.empty()) restore("base", &peer.base);
    if (!rule_) return;
    restore("slow", &peer.slow);
    restore("velocity", &peer.velocity);
  }

  const std::optional<NoLoCo> rule_;
  const int chunk_floats_;
  std::vector<Peer> peers_;
  std::vector<float> arrived_, payload_;
  int64_t in_flight_ = 0;  // packets
};

}  // namespace

std::unique_ptr<SimulationCore> MakeGossipSimulation(const SolverConfig& config,
                                                     const SimulationOptions& options,
                                                     const GossipPlan& plan) {
  return std::make_unique<GossipSimulation>(config, options, plan);
}

}  // namespace millrace::inline simulate
