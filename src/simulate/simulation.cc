#include "simulate/simulation.h"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "simulate/simulation_core.h"
#include "train/train_nets.h"

namespace millrace::inline simulate {

void RefuseOption(const std::string& field, double value, const std::string& expected) {
  throw Error(field, ": ", value, " given, expected ", expected);
}

namespace {

void Check(const SimulationOptions& options) {
  const auto expect = [](const char* field, double value, bool holds, const char* expected) {
    if (!holds) RefuseOption(field, value, expected);
  };
  expect("workers", options.workers, options.workers >= 1 && options.workers <= 64, "1 to 64");
  expect("step_ms", options.step_ms, options.step_ms >= 1e-3 && options.step_ms <= 1e6,
         "0.001 to 1000000");
  expect("jitter", options.jitter, options.jitter >= 0 && options.jitter < 1, "0 to less than 1");
  expect("max_mbps", options.network.max_mbps,
         options.network.max_mbps >= 0.01 && options.network.max_mbps <= 1e6, "0.01 to 1000000");
  expect("delay_ms", options.network.delay_ms,
         options.network.delay_ms >= 0 && options.network.delay_ms <= 10000, "0 to 10000");
  expect("loss", options.network.loss, options.network.loss >= 0 && options.network.loss <= 0.9,
         "0 to 0.9");
  expect("mtu", options.mtu, options.mtu >= 576 && options.mtu <= 65535, "576 to 65535");
  expect("snapshot_every", static_cast<double>(options.snapshot_every), options.snapshot_every >= 0,
         "0 or more");
  expect("threads", options.threads, options.threads >= 0, "0 or more");
  for (const auto& [worker, factor] : options.slow) {
    expect("slow: worker", worker, worker >= 0 && worker < options.workers,
           "a number below that of workers");
    expect("slow: factor", factor, factor > 0 && factor <= 1e6, "above 0, at most 1000000");
  }
}

// Refuses options that strategies without diffs do not have.
void CheckWithoutExchange(const SimulationOptions& options, const std::string& strategy,
                          bool loses_packets) {
  const auto refuse = [&](const char* field, const std::string& value, const char* expected) {
    throw Error(field, ": ", value, " given, expected ", expected, " with the strategy ", strategy,
                ", whose workers have no ", field);
  };
  if (options.rule.name != "" && options.rule.name != "additive")
    refuse("rule", options.rule.name, "none");
  if (options.codec.value_or(CodecConfig()).codec != Codec::kFloat32) {
    refuse("codec", "another", "float32");
  }
  if (options.position_codec.value_or(Codec::kFloat32) != Codec::kFloat32) {
    refuse("position_codec", "another", "float32");
  }
  if (!loses_packets && options.network.loss > 0) {
    throw Error("loss: ", options.network.loss, " given, expected 0 with the strategy ", strategy,
                ", whose sums are over reliable connections");
  }
}

void RefuseLayers(const SolverConfig& config) {
  const SolverNet& net = config.train;
  for (const PlacedLayer& layer : SelectLayers(net.param, net.state, net.source)) {
    if (!layer.param.batch_norm_param().synchronized()) continue;
    throw Error(PlaceOf(net.source, layer, "batch_norm_param.synchronized"),
                "simulated workers have no common batches, expected none");
  }
}

// Fills in rule, damping and codecs of an exchange that names none.
SimulationOptions WithRule(SimulationOptions options) {
  bool damping = IsDampedByDefault(options.rule.name);
  DefaultMergeRule chosen;
  if (options.rule.name.empty()) {
    chosen = DefaultMergeRuleFor(options.workers, true, options.scales);
    LOG(INFO) << "The workers merge by the rule " << chosen.reason;
    options.rule = std::move(chosen.rule);
    damping = chosen.damping;
    options.scales_rate = chosen.scales_rate;
  }
  if (!options.damping) options.damping = damping;
  if (!options.codec) options.codec = {.codec = chosen.codec};
  if (!options.position_codec) options.position_codec = chosen.position_codec;
  return options;
}

std::unique_ptr<SimulationCore> MakeCore(const SolverConfig& config,
                                         const SimulationOptions& options) {
  const std::string& type = config.param.strategy().type();
  const StrategyPlan* const plan = config.strategy.get();
  if (const auto* const allreduce = dynamic_cast<const AllreducePlan*>(plan)) {
    CheckWithoutExchange(options, type, false);
    return MakeSynchronousSimulation(config, options, *allreduce);
  }
  if (const auto* const gossip = dynamic_cast<const GossipPlan*>(plan)) {
    CheckWithoutExchange(options, type, true);
    return MakeGossipSimulation(config, options, *gossip);
  }
  if (dynamic_cast<const LocalPlan*>(plan) != nullptr ||
      dynamic_cast<const HogwildPlan*>(plan) != nullptr) {
    return MakeExchangeSimulation(config, WithRule(options));
  }
  throw Located(config.source,
                FieldError("strategy.type", "is ", type,
                           ", a simulation has hogwild, local, allreduce and gossip"));
}

}  // namespace

Simulation::Simulation(const SolverConfig& config, const SimulationOptions& options) {
  Check(options);
  RefuseLayers(config);
  core_ = MakeCore(config, options);
}

Simulation::~Simulation() = default;

SimulationStatus Simulation::Run(const SimulationObserver& observer) {
  return core_->Run(observer);
}

const std::vector<float>& Simulation::weights() const { return core_->weights(); }

double Simulation::LargestDistance() const { return core_->LargestDistance(); }

void Simulation::Save(const std::string& path) { core_->Save(path); }

}  // namespace millrace::inline simulate
