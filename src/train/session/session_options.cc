#include "train/session/session_options.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "solver/strategy_plan.h"
#include "train/choose_gpus.h"

namespace millrace::inline train {

namespace {

void CheckEnd(const SessionOptions& options, bool in_cluster, const SolverConfig& config) {
  if (options.past_max_iter && (in_cluster || config.strategy->synchronous)) {
    throw Error("SessionOptions.past_max_iter: expected no cluster, and strategy hogwild");
  }
  if (in_cluster && config.param.stop_condition_size() > 0) {
    throw Located(config.source,
                  FieldError("stop_condition",
                             "a session in a cluster ends with max_iter only, expected "
                             "none with a topology"));
  }
}

std::vector<Device*> DevicesOf(const SessionOptions& options) {
  std::vector<Device*> devices = options.devices;
  for (const Device* device : devices) {
    if (device == nullptr || device->type() == DeviceType::kCpu) {
      throw Error("SessionOptions.devices: expected devices with memory of their own");
    }
  }
  const std::vector<Device*> gpus = ChooseGpus(options.gpus);
  devices.insert(devices.end(), gpus.begin(), gpus.end());
  return devices;
}

}  // namespace

TrainOptions TrainOptionsOf(const SessionOptions& options, const SolverConfig& config) {
  TrainOptions train;
  train.topology = options.topology;
  train.node = options.node;
  train.rendezvous.url = options.rendezvous;
  train.rendezvous.nodes = options.nodes;
  CheckEnd(options, train.in_cluster(), config);
  if (!options.snapshot.empty() && !options.weights.empty()) {
    throw Error(
        "SessionOptions.weights and snapshot: a snapshot brings its own weights; give one "
        "of them");
  }
  train.snapshot = options.snapshot;
  train.weights = options.weights;
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("SessionOptions.shard_index: ", options.shard_index, " of ", options.shard_count,
                " shards, expected a smaller number");
  }
  train.shard_index = options.shard_index;
  train.shard_count = options.shard_count;
  train.gpus = DevicesOf(options);
  train.gpu_settings = GpuSettingsFor(options.precision);
  const int min = train.gpus.empty() ? 1 : 0;
  train.solvers = options.solvers.value_or(min);
  if (*train.solvers < min) {
    throw Error("SessionOptions.solvers: ", *train.solvers, ", expected ", min, " or more");
  }
  train.registry = options.metrics;
  return train;
}

bool BeginsPlain(const SolverNet& net, const SessionOptions& options) {
  const auto& layers = net.param.layer();
  return options.plain_blobs || (options.plain_blobs_on_use &&
                                 std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
                                   return layer.type() == "Python";
                                 }));
}

}  // namespace millrace::inline train
