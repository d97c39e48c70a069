#include "test/sim/exchange_node.h"

#include <numeric>

#include "base/error.h"
#include "exchange/kernels/host_executor.h"

namespace millrace::sim {

namespace {

constexpr int64_t kSpacing = 5;  // of positions, in iterations of the cluster

// Adds up the progress that operations drop, by weight, and passes them on.
class DropRecorder : public ChunkExecutor {
 public:
  DropRecorder(std::unique_ptr<ChunkExecutor> inner, std::vector<double>* dropped)
      : inner_(std::move(inner)), dropped_(*dropped) {}

  void Run(std::span<ChunkOp> ops) override {
    drops_.clear();
    for (const ChunkOp& op : ops) {
      if (!Drops(op)) continue;
      std::vector<double>& unsent = drops_.emplace_back();
      const int64_t begin = op.chunk * arrays().chunk_floats;
      for (int64_t i = begin; i < begin + arrays().floats_of(op.chunk); ++i) {
        unsent.push_back(double{arrays().weights[i]} - arrays().base[i]);
      }
    }
    inner_->Run(ops);
    auto unsent = drops_.begin();
    for (const ChunkOp& op : ops) {
      if (!Drops(op)) continue;
      int64_t at = op.chunk * arrays().chunk_floats;
      for (const double value : *unsent++) {
        const double taken = op.drop_rest ? arrays().pending[at] : 0;
        dropped_[at++] += op.result & kRefused ? 0 : value - taken;
      }
    }
  }
  size_t batch_ops() const override { return inner_->batch_ops(); }
  const ReplicaArrays& arrays() const override { return inner_->arrays(); }

 private:
  static bool Drops(const ChunkOp& op) {
    return op.kind == ChunkOpKind::kLoad || op.kind == ChunkOpKind::kDropRest || op.drop_rest;
  }

  const std::unique_ptr<ChunkExecutor> inner_;
  std::vector<double>& dropped_;
  std::vector<std::vector<double>> drops_;  // scratch of Run
};

}  // namespace

ExchangeConfig TickConfig() {
  ExchangeConfig config;
  config.heartbeat_ns = 8 * kTickNs;
  config.peer_timeout_ns = 60 * kTickNs;
  config.bootstrap_after_ns = 40 * kTickNs;
  config.resend_ns = 4 * kTickNs;
  config.push_after_ns = 3 * kTickNs;
  return config;
}

uint64_t ExchangeFrames(const Exchange& exchange) {
  const auto& sent = exchange.stats().sent;
  return std::accumulate(sent.begin(), sent.begin() + static_cast<size_t>(FrameType::kHeartbeat),
                         uint64_t{0});
}

void ThrottleAtRandom(double probability, bool training, Rng rng, Exchange* exchange) {
  const bool throttled = rng.Uniform() < probability;
  exchange->SetThrottled(throttled, rng.Uniform() < 0.5 && training ? kSpacing : 0);
}

std::string ViewText(const View& view) {
  static constexpr const char* kRoles[] = {"joining", "synced", "leaving"};
  std::string text = StrCat(view.id.epoch, "/", view.id.coordinator, " after");
  for (const ViewId& id : view.ancestors) text += StrCat(" ", id.epoch, "/", id.coordinator);
  text += " of";
  for (const Member& m : view.members) {
    text += StrCat(" ", m.node, "(", m.incarnation, " ", kRoles[static_cast<int>(m.role)], ")");
  }
  return text;
}

void ExchangeEnd::Start(const ExchangeConfig& config, std::span<float> weights,
                        int64_t chunk_floats, RangeLock* locks,
                        const test::FakeExecutorOptions& fake, const MergeRuleConfig& rule) {
  const auto size = static_cast<int64_t>(weights.size());
  const int state_floats = MergeRuleRegistry::Get().Check(rule).state_floats;
  node = config.node;
  exchange.reset();
  base.assign(weights.size(), 0.0f);
  pending = base;
  rule_state.assign(weights.size() * static_cast<size_t>(state_floats), 0.0f);
  dropped.assign(weights.size(), 0.0);
  executor =
      MakeHostExecutor({weights.data(), base.data(), pending.data(),
                        rule_state.empty() ? nullptr : rule_state.data(), size, chunk_floats},
                       config.codec, rule, BestSimd(), locks);
  if (config.damping) executor = std::make_unique<DropRecorder>(std::move(executor), &dropped);
  if (fake.late_batch_ops > 0 || fake.before) {
    executor = std::make_unique<test::FakeExecutor>(std::move(executor), fake);
  }
  ExchangeConfig with_rule = config;
  with_rule.merges_own = MergeRuleRegistry::Get().MergesOwn(rule.name);
  exchange = std::make_unique<Exchange>(with_rule, executor.get());
}

void ExchangeEnd::Receive(Network* network, int64_t tick) {
  const std::vector<Network::Arrival> arrived = network->Arrived(node, tick);
  exchange->Receive(ViewsOf(arrived), tick * kTickNs);
}

void ExchangeEnd::Send(Network* network, std::span<PostedFrame> room, int64_t tick) {
  const size_t count = exchange->Send(room, tick * kTickNs);
  for (const PostedFrame& frame : room.first(count)) {
    network->Transmit(node, frame.destination, frame.head, frame.payload, tick);
    exchange->Release(frame.slot);
  }
}

void ExchangeNode::Start(const ExchangeConfig& config, int64_t size, int64_t chunk_floats,
                         const test::FakeExecutorOptions& fake, const MergeRuleConfig& rule) {
  iterations = 0;
  exchange.reset();
  executor.reset();
  weights.assign(size, 0.0f);
  locks = std::make_unique<RangeLock>(weights.data());
  ExchangeEnd::Start(config, weights, chunk_floats, locks.get(), fake, rule);
}

}  // namespace millrace::sim
