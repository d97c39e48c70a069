// Workers that exchange weights through a segment, as the nodes of a cluster do: the real exchange
// over the simulated network.
#include <algorithm>
#include <utility>

#include "exchange/protocol/ownership.h"
#include "segment/net_segment.h"
#include "simulate/simulation_core.h"
#include "solver/look_ahead.h"

namespace millrace::inline simulate {
namespace {

constexpr int64_t kMaxRestNs = 3'600'000'000'000;  // for forming and for coming to rest
constexpr size_t kFramesAtOnce = 4;

class ExchangeSimulation : public SimulationCore {
 public:
  ExchangeSimulation(const SolverConfig& solver, const SimulationOptions& given)
      : SimulationCore(solver, given),
        poll_at_ns_(given.workers, INT64_MAX),
        staleness_(given.workers) {
    const MergeRuleDescriptor& rule = MergeRuleRegistry::Get().Check(given.rule);
    MergeRuleRegistry::Get().CheckCodec(given.rule.name, *given.codec);
    MakeWorkers([&](WorkerConfig* worker) {
      WorkerExchange exchange{ExchangeOf(worker->index, rule), given.rule};
      exchange.chunk_floats = chunk_floats_ =
          ChunkFloatsFor(static_cast<size_t>(given.mtu - kIpUdpBytes), exchange.config);
      if (chunk_floats_ < 1) RefuseOption("mtu", given.mtu, "more: a chunk does not fit");
      worker->exchange = std::move(exchange);
      worker->make_strategy = [this](const WorkerWeights& weights) { return StrategyOf(weights); };
    });
    owners_.resize(several() ? exchange(0).table().size() : 0);
  }

 private:
  Exchange& exchange(int w) const { return worker(w).exchange(); }

  std::unique_ptr<SimulatedStrategy> StrategyOf(const WorkerWeights& weights) {
    const StrategyPlan& plan = *config().strategy;
    if (const auto* const local = dynamic_cast<const LocalPlan*>(&plan)) {
      return std::make_unique<SimulatedLocal>(weights, schedule(), local->Merger(), LookAhead());
    }
    const auto& hogwild = dynamic_cast<const HogwildPlan&>(plan);
    return std::make_unique<DeferredStrategy>(weights, schedule(), LookAhead(),
                                              hogwild.delay_compensation, hogwild.passes);
  }

  float LookAhead() const {
    if (!several()) return 0;
    return MergeRuleRegistry::Get().MergesOwn(options().rule.name) ? kLookAheadOfMeans
                                                                   : kLookAheadOfSums;
  }

  ExchangeConfig ExchangeOf(uint16_t index, const MergeRuleDescriptor& rule) const {
    const auto delay_ns = static_cast<int64_t>(options().network.delay_ms * 1e6);
    ExchangeConfig exchange;
    exchange.run = 1;
    exchange.node = index;
    exchange.max_nodes = static_cast<uint16_t>(std::max(workers(), 2));
    exchange.codec = *options().codec;
    exchange.position_codec = *options().position_codec;
    exchange.position_share = options().position_share;
    exchange.damping = *options().damping;
    exchange.rest_distance = rule.RestDistance(options().rule.parameters);
    exchange.merges_own = MergeRuleRegistry::Get().MergesOwn(rule.name);
    exchange.sole_bootstrapper = index == 0;
    if (index != 0) exchange.bootstrap_after_ns = -1;
    exchange.bytes_per_second = options().network.max_mbps * 1e6 / 8;
    // As on a machine, but with room for delays that no local network has.
    exchange.peer_timeout_ns = std::max(exchange.peer_timeout_ns, 20 * delay_ns);
    exchange.resend_ns = std::max(exchange.resend_ns, 4 * delay_ns);
    return exchange;
  }

  void PollAt(int w, int64_t at_ns) {
    if (poll_at_ns_[w] <= at_ns) return;
    poll_at_ns_[w] = at_ns;
    At(at_ns, [this, w] {
      // An earlier poll may have taken its place.
      if (poll_at_ns_[w] != now_ns()) return;
      poll_at_ns_[w] = INT64_MAX;
      Poll(w);
    });
  }

  // Sends as many frames as the worker's link has room for.
  void Poll(int w) {
    PostedFrame room[kFramesAtOnce];
    while (network().FreeAt(static_cast<uint16_t>(w)) <= now_ns()) {
      const size_t count = exchange(w).Send(room, now_ns());
      exchange(w).SetThrottled(count == kFramesAtOnce);
      if (count == 0) break;
      arrivals_.clear();
      for (const PostedFrame& frame : std::span(room).first(count)) {
        network().Send(static_cast<uint16_t>(w), frame.destination, frame.head, frame.payload,
                       now_ns(), &arrivals_);
        exchange(w).Release(frame.slot);
      }
      for (SimulatedNetwork::Arrival& arrival : arrivals_) {
        ++in_flight_;
        At(arrival.at_ns, [this, to = arrival.to, bytes = std::move(arrival.frame)] {
          --in_flight_;
          const std::span<const std::byte> frame(bytes);
          exchange(to).Receive({&frame, 1}, now_ns());
          Poll(to);
        });
      }
    }
    constexpr int64_t kMinNs = 1000;
    PollAt(w, std::max({network().FreeAt(static_cast<uint16_t>(w)), exchange(w).NextEvent(now_ns()),
                        now_ns() + kMinNs}));
  }

  float RateFactor(int w) const override {
    if (!options().scales_rate) return 1;
    return RateScale::FactorOf(GrowthOf(config().param.type()), workers(),
                               staleness_[w].iterations());
  }

  void AfterIteration(int w) override {
    if (!several()) return;
    Poll(w);
    const Exchange& of = exchange(w);
    staleness_[w].Update(of.global_iterations(), of.metrics().sweeps());
  }

  void FormCluster() override {
    if (!several()) return;
    std::fill(poll_at_ns_.begin(), poll_at_ns_.end(), INT64_MAX);
    std::fill(staleness_.begin(), staleness_.end(), StalenessEstimate());
    for (int w = 0; w < workers(); ++w) PollAt(w, 0);
    const auto formed = [&] {
      for (int w = 0; w < workers(); ++w) {
        // Until a view says so, the chunks of a node that is in sync have other masters. On a slow
        // link the hand-over of its chunks takes longer than a short training.
        if (!exchange(w).quiescent() ||
            exchange(w).view().synced() != static_cast<size_t>(workers())) {
          return false;
        }
      }
      return true;
    };
    while (!formed()) {
      if (now_ns() > kMaxRestNs) throw Error("the workers did not find each other");
      Step();
    }
    // No node leaves or joins from here on.
    AssignOwners(exchange(0).view(), owners_);
    taken_before_ = PositionsTaken() - taken_earlier_;
  }

  void Train() override {
    StartAll();
    while (!AllFinished()) Step();
  }

  void ComeToRest() override {
    if (!several()) return;
    const int64_t begin_ns = now_ns();
    for (int w = 0; w < workers(); ++w) {
      exchange(w).Flush();
      PollAt(w, now_ns());
    }
    const auto at_rest = [&] {
      if (in_flight_ > 0) return false;
      for (int w = 0; w < workers(); ++w) {
        if (!exchange(w).quiescent()) return false;
      }
      return true;
    };
    while (!at_rest()) {
      if (now_ns() - begin_ns > kMaxRestNs) {
        throw Error("after the last iteration, the exchange did not come to rest in ",
                    kMaxRestNs / 1'000'000'000, " s of virtual time");
      }
      Step();
    }
  }

  // Reads the weights of each chunk's master.
  void ReadMerged(std::vector<float>* merged) override {
    if (!several()) {
      *merged = weights();
      return;
    }
    const auto chunk = static_cast<size_t>(chunk_floats_);
    for (size_t c = 0; c < owners_.size(); ++c) {
      const size_t begin = c * chunk, end = std::min(begin + chunk, merged->size());
      const SimulatedWorker& of = worker(owners_[c]);
      const std::vector<float>& from = exchange(owners_[c]).merges_own() ? of.base() : of.weights();
      std::copy(from.begin() + begin, from.begin() + end, merged->begin() + begin);
    }
  }

  uint64_t PositionsTaken() const {
    uint64_t taken = 0;
    for (int w = 0; w < workers(); ++w) taken += exchange(w).stats().positions_taken;
    return taken;
  }

  // A worker gets positions of the chunks that others master.
  void AddTo(SimulationStatus* status) const override {
    if (!several()) return;
    const auto sweeps = static_cast<double>(PositionsTaken() - taken_before_);
    const double foreign = static_cast<double>(owners_.size()) * (workers() - 1);
    if (sweeps > 0) status->staleness = static_cast<double>(completed()) * foreign / sweeps;
  }

  std::string rule() const override {
    return StrCat(SimulationCore::rule(), ", exchange ", options().rule.name);
  }

  // Calls body(owner, begin, count) for the state of the rule, float by float of each chunk.
  template <typename Body>
  void ForRuleState(Body body) const {
    const size_t size = worker(0).weights().size(), all = worker(0).rule_state().size();
    const auto chunk = static_cast<size_t>(chunk_floats_);
    for (size_t first = 0; first < all; first += size) {
      for (size_t c = 0; c < owners_.size(); ++c) {
        body(owners_[c], first + c * chunk, std::min(chunk, size - c * chunk));
      }
    }
  }

  void ExportShared(RunState* run) const override {
    if (!several()) return;
    const double taken[] = {static_cast<double>(PositionsTaken() - taken_before_)};
    AddNumbers("positions_taken", taken, run);
    const size_t size = worker(0).rule_state().size();
    if (size == 0) return;
    std::vector<float> state;
    state.resize(size);  // with TSan, GCC 12 gives a false warning for `state(size)`
    ForRuleState([&](int owner, size_t begin, size_t count) {
      std::copy_n(worker(owner).rule_state().begin() + begin, count, state.begin() + begin);
    });
    AddArray("rule_state", state, run);
  }

  void RestoreShared(const StateReader& run) override {
    if (!several()) return;
    taken_earlier_ = static_cast<uint64_t>(run.Counts("positions_taken", 1)[0]);
    taken_before_ = PositionsTaken() - taken_earlier_;
    const size_t size = worker(0).rule_state().size();
    if (size == 0) return;
    const std::span<const float> state = run.Array("rule_state", size);
    ForRuleState([&](int owner, size_t begin, size_t count) {
      std::copy_n(state.begin() + begin, count, worker(owner).rule_state().begin() + begin);
    });
  }

  int64_t chunk_floats_ = 0;
  std::vector<uint16_t> owners_;  // masters of the chunks
  std::vector<int64_t> poll_at_ns_;
  std::vector<StalenessEstimate> staleness_;
  uint64_t taken_before_ = 0, taken_earlier_ = 0;  // positions: of this part; in earlier parts
  int64_t in_flight_ = 0;                          // frames
  std::vector<SimulatedNetwork::Arrival> arrivals_;
};

}  // namespace

std::unique_ptr<SimulationCore> MakeExchangeSimulation(const SolverConfig& config,
                                                       const SimulationOptions& options) {
  return std::make_unique<ExchangeSimulation>(config, options);
}

}  // namespace millrace::inline simulate
