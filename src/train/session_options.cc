#include "train/session_options.h"

#include <algorithm>

#include "base/error.h"
#include "train/choose_gpus.h"
#include "train/cluster/connect_ranks.h"

namespace millrace::inline train {

void CheckSessionOptions(const SessionOptions& options, const SolverConfig& config) {
  const bool in_cluster = ClusterPart(options).in_cluster();
  if (options.past_max_iter && (in_cluster || IsSynchronous(config))) {
    throw Error("SessionOptions.past_max_iter: expected no cluster, and strategy hogwild");
  }
  if (in_cluster && config.param.stop_condition_size() > 0) {
    throw Located(config.source,
                  FieldError("stop_condition",
                             "a session in a cluster ends with max_iter only, expected "
                             "none with a topology"));
  }
}

TrainOptions ClusterPart(const SessionOptions& options) {
  TrainOptions train;
  train.topology = options.topology;
  train.node = options.node;
  train.rendezvous.url = options.rendezvous;
  train.rendezvous.nodes = options.nodes;
  return train;
}

DataOptions TrainData(const SessionOptions& options, int solvers, const NodeConfig* node_config,
                      const Processes* processes, const SolverConfig& config) {
  DataOptions data{.seed = config.seed,
                   .sampler = config.param.sampler(),
                   .consumers = IsSynchronous(config) ? solvers : 0};
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("SessionOptions.shard_index: ", options.shard_index, " of ", options.shard_count,
                " shards, expected a smaller number");
  }
  if (options.shard_count > 0) {
    data.shard_index = options.shard_index;
    data.shard_count = options.shard_count;
  } else if (processes != nullptr) {
    data.shard_index = static_cast<uint64_t>(processes->rank());
    data.shard_count = static_cast<uint64_t>(processes->size());
  } else if (node_config != nullptr) {
    data.shard_index = static_cast<uint64_t>(node_config->plan.shard);
    data.shard_count = static_cast<uint64_t>(node_config->plan.shards);
  }
  return data;
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
  const int min = devices.empty() ? 1 : 0;
  const int solvers = options.solvers.value_or(min);
  if (solvers < min) {
    throw Error("SessionOptions.solvers: ", solvers, ", expected ", min, " or more");
  }
  if (!devices.empty()) LogDevices(devices);
  devices.insert(devices.end(), solvers, &HostDevice());
  return devices;
}

bool BeginsPlain(const SolverNet& net, const SessionOptions& options) {
  const auto& layers = net.param.layer();
  return options.plain_blobs || (options.plain_blobs_on_use &&
                                 std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
                                   return layer.type() == "Python";
                                 }));
}

}  // namespace millrace::inline train
