#include "train/run_setup.h"

#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <utility>

#include "base/text/format.h"
#include "solver/solver.h"
#include "train/choose_gpus.h"
#include "train/cluster/connect_ranks.h"
#include "train/divide_batch.h"
#include "train/resume.h"
#include "train/train_nets.h"

namespace millrace::inline train {
namespace {

// Fills unset options from the solver file, the node's plan or the processes that train with this
// one (null: none), else with defaults.
TrainOptions Resolved(TrainOptions options, const SolverConfig& config,
                      const NodeConfig* node_config, const Processes* processes) {
  if (options.gpus.empty() && !options.solvers) options.gpus = GpusOf(config);
  if (!options.solvers) {
    options.solvers = !options.gpus.empty() ? 0 : node_config ? node_config->plan.solvers : 1;
  }
  if (options.shard_count == 0 && processes != nullptr) {
    options.shard_index = processes->rank();
    options.shard_count = processes->size();
  }
  if (options.shard_count == 0) {
    options.shard_index = node_config ? node_config->plan.shard : 0;
    options.shard_count = node_config ? node_config->plan.shards : 1;
  }
  return options;
}

// The processes that a launcher has started with this one, connected; null: none.
Processes* Connect(const TrainOptions& options, bool synchronous, bool in_session,
                   SolverConfig* config, std::unique_ptr<Processes>* processes) {
  if (synchronous) {
    ConnectRanks(options, !in_session, config, processes);
  } else if (!in_session) {
    RefuseSeparateRanks(options, *config);
  }
  return processes->get();
}

bool IsAt(const TopologyMemory& memory, const Device& device) {
  return device.type() == memory.type && device.ordinal() == memory.ordinal;
}

void LogNotices(const SolverConfig& config) {
  for (const std::string& notice : config.notices) LOG(INFO) << notice;
  for (const std::string& warning : config.warnings) LOG(WARNING) << warning;
}

}  // namespace

void CheckOptions(const TrainOptions& options) {
  const int least = options.gpus.empty() ? 1 : 0;
  if (options.solvers && *options.solvers < least) {
    throw Error("--cpu=", *options.solvers, ": expected at least ", least,
                least == 1 ? " solver" : " solvers");
  }
  if (!options.weights.empty() && !options.snapshot.empty()) {
    throw Error("--weights and --snapshot: a snapshot brings its own weights; give one of them");
  }
  if (options.shard_count > 0 && options.shard_index >= options.shard_count) {
    throw Error("--shard=", options.shard_index, "/", options.shard_count,
                ": expected i/n with 0 <= i < n");
  }
}

RunSetup::RunSetup(SolverConfig solver, const TrainOptions& given,
                   const std::optional<ShownNet>& shown_net, std::unique_ptr<Processes>* connected)
    : config(std::move(solver)),
      shown(shown_net),
      node_config(shown ? FindHostNodeConfig(given) : FindNodeConfig(given)),
      synchronous(config.strategy->synchronous.has_value()),
      processes(Connect(given, synchronous, shown.has_value(), &config, connected)),
      options(Resolved(given, config, node_config.get(), processes)),
      rate_scale(RateScale::WarmupOf(config.param.max_iter())),
      policy(config.param) {
  policy.ScaleBy(&rate_scale);
  config.gpu = options.gpu_settings;
  omp_set_num_threads(1);
  LogNotices(config);
  if (!shown || gpus() > 0) LogDevices(options.gpus);
  if (synchronous && config.strategy->synchronous->divides_batch) {
    DivideBatch(solvers_of_run(), &config.train);
  }
  if (!shown) RemoveStaleFiles();
  if (!options.snapshot.empty()) Resume();
  data = std::make_unique<DataService>(DataOptions{.seed = config.seed,
                                                   .shard_index = options.shard_index,
                                                   .shard_count = options.shard_count,
                                                   .sampler = config.param.sampler(),
                                                   .consumers = synchronous ? solvers() : 0});
  // Tests use all of their data, whatever the process's shard of the training data.
  test_data = std::make_unique<DataService>(DataOptions{.seed = config.seed});
  if (resume) {
    data->Restore("train", {resume->state.stream().begin(), resume->state.stream().end()});
  }
  CheckNetTypes(config);
  CheckSynchronizedLayers();
  CheckMemory();
  MakeNets();
  CheckSampled(config, *data);
  if (!shown) CheckSnapshots(config, *net);
  MakeWeights();
}

void RunSetup::RemoveStaleFiles() const {
  const std::string& prefix = config.param.snapshot_prefix();
  if (const int stale = is_first_rank() ? RemoveStaleSnapshotFiles(prefix) : 0; stale > 0) {
    LOG(INFO) << "Removed " << stale << " temporary files of " << prefix
              << " that killed processes have left";
  }
}

std::string RunSetup::part_name() const {
  if (node_config) return node_config->plan.name;
  if (is_first_rank() || shown || !config.strategy->synchronous->merges_weights) return "";
  return StrCat("rank", processes->rank());
}

void RunSetup::Resume() {
  Resumption resumption = LoadOwnResumePoint(options.snapshot, part_name(), processes != nullptr);
  resume = std::move(resumption.point);
  resumes_own_part = resumption.is_own;
  if (resume->state.has_seed()) config.seed = resume->state.seed();
  ResumePolicy(*resume, &policy);
  const std::string notice = resumption.is_own ? ResumeNotice(*resume, solvers()) : "";
  if (!notice.empty()) LOG(INFO) << notice;
}

// Layers that are `synchronized` need solvers that step together, or one that is alone.
void RunSetup::CheckSynchronizedLayers() const {
  if (synchronous) return;
  if (solvers_of_run() == 1 && !node_config && options.shm.empty()) return;
  RefuseSynchronizedLayers(config);
}

// Expects of a node whose weights are in the memory of a device that a solver of this run trains
// there, and that links join the host's replica to it.
void RunSetup::CheckMemory() const {
  if (!node_config || node_config->plan.memory.on_host()) return;
  const TopologyMemory& memory = node_config->plan.memory;
  const bool trains = std::any_of(options.gpus.begin(), options.gpus.end(),
                                  [&](Device* gpu) { return IsAt(memory, *gpu); });
  if (!trains) {
    throw MemoryError(
        *node_config,
        StrCat("but no solver of this run is there: expected host, or --gpu=", memory.ordinal));
  }
  if (!config.strategy->links_devices) {
    throw MemoryError(*node_config,
                      StrCat("but the strategy ", config.param.strategy().type(),
                             " merges the weights of solvers in host memory: expected host"));
  }
  if (!options.shm.empty()) {
    throw MemoryError(*node_config, StrCat("but the processes of --shm=", options.shm,
                                           " share weights in host memory: expected host"));
  }
}

std::unique_ptr<BuiltNet> RunSetup::MakeNet(Device* device, int index) const {
  const int consumer = index < solvers() ? index : 0;
  BuiltNetOptions net_options = TrainNetOptions(config, data.get(), device, consumer);
  if (shown && index == gpus()) {
    net_options.keep_activations = true;
    net_options.plain_blobs = shown->plain_blobs;
  }
  auto made =
      std::make_unique<BuiltNet>(config.train.param, config.train.source, std::move(net_options));
  CheckRuleFor(config, &made->queue());
  return made;
}

// Makes the nets of all GPUs and of one solver on CPUs, so that a layer that one of them lacks is
// known before training begins. Other solvers on CPUs make theirs themselves.
void RunSetup::MakeNets() {
  LOG(INFO) << "Creating training net from " << config.train.origin;
  nets.resize(std::max(solvers(), gpus() + (fills_on_host() ? 1 : 0)));
  for (int i = 0; i < std::min<int>(static_cast<int>(nets.size()), gpus() + 1); ++i) {
    nets[i] = MakeNet(i < gpus() ? options.gpus[i] : &HostDevice(), i);
    if (i == 0) nets[i]->LogNotices();
  }
  net = nets[fills_on_host() ? gpus() : 0].get();
}

// The strategy of the solver file as text: equal for equal strategies.
std::string RunSetup::StrategyText() const {
  caffe::StrategyParameter parts = config.param.strategy();
  parts.clear_type();
  const std::string text = parts.ShortDebugString();
  return config.param.strategy().type() + (text.empty() ? "" : StrCat(" { ", text, " }"));
}

// Fills, loads or resumes new weights. Weights of a running training are used as they are.
void RunSetup::MakeWeights() {
  weights = options.shm.empty()
                ? WeightBuffer::CreatePrivate(net->layout())
                : WeightBuffer::JoinTraining(options.shm, net->layout(), {}, StrategyText());
  for (Device* gpu : options.gpus) {
    gpu_weights.push_back(std::make_unique<DeviceWeights>(gpu, weights->size()));
  }
  // The host's array, or that of the first GPU, which is then copied to the host.
  net->BindWeights(fills_on_host() ? weights->data() : gpu_weights[0]->data());
  if (!weights->created()) {
    if (node_config) {
      throw Error("--shm=", options.shm,
                  ": joins a run that has its segments: --topology does not apply");
    }
    if (resume || !options.weights.empty()) {
      throw Error("--shm=", options.shm,
                  ": joins a run that has its weights: --weights and --snapshot do not apply");
    }
    LOG(INFO) << "Joined the run at /dev/shm/" << options.shm << " at iteration "
              << weights->clock().claimed();
    return;
  }
  FillWeights();
  if (!fills_on_host()) gpu_weights[0]->CopyToHost(weights->data());
  if (cluster_gpu() != nullptr) cluster_gpu()->CopyFromHost(weights->data());
  if (!node_config) weights->Publish();
}

// From the snapshot that the run continues, or from the fillers and then from files: those of the
// options, or those that the solver file names.
void RunSetup::FillWeights() {
  net->FillWeights();
  if (resume) {
    CopyModel(resume->model_path, net);
    weights->clock().StartAt(resume->iteration());
    if (resume->iteration() > config.param.max_iter()) {
      LOG(WARNING) << "max_iter is " << config.param.max_iter() << ", below iteration "
                   << resume->iteration() << " of " << resume->path << ": nothing is trained";
    }
    return;
  }
  weight_files = options.weights;
  if (weight_files.empty()) {
    weight_files.assign(config.param.weights().begin(), config.param.weights().end());
  }
  for (const std::string& file : weight_files) {
    LOG(INFO) << "Finetuning from " << file;
    LoadWeights(file, net);
  }
  if (!weight_files.empty()) LogLayersWithoutSavedWeights(*net);
}

ClusterReplica RunSetup::Replica() const {
  IterationClock& iterations = weights->clock();
  DeviceWeights* const gpu = cluster_gpu();
  return {.weights = gpu != nullptr ? gpu->data() : weights->data(),
          .size = weights->size(),
          .layout_digest = net->layout().Digest(),
          .max_iter = static_cast<uint32_t>(config.param.max_iter()),
          .examples = ExamplesOf(net->batch_size(), config.param, solvers()),
          .start = iterations.start(),
          .iterations = &iterations,
          .replica_device = gpu != nullptr ? ReplicaOn(gpu->device(), nullptr, &gpu->order())
                                           : HostReplica(&weights->locks()),
          .registry = options.registry};
}

StrategyContext RunSetup::ContextOfStrategies() {
  StrategyContext context;
  context.config = &config;
  context.weights = weights.get();
  context.solvers = solvers();
  context.replica_of = [this](int index) { return ReplicaOf(index); };
  context.clock = &clock;
  context.in_cluster = node_config != nullptr;
  context.weights_are_shared = !options.shm.empty();
  context.processes = processes;
  if (resume) context.state = resume->merge_state();
  context.state_is_own = resumes_own_part;
  return context;
}

DeviceWeights* RunSetup::cluster_gpu() const {
  if (!node_config) return nullptr;
  for (const auto& replica : gpu_weights) {
    if (IsAt(node_config->plan.memory, replica->device())) return replica.get();
  }
  return nullptr;
}

std::string RunSetup::Title() const {
  return node_config
             ? StrCat(net->name(), " on ", node_config->topology.name, "/", node_config->plan.name)
             : net->name();
}

void RunSetup::LogWeights() const {
  const double weight_bytes = static_cast<double>(weights->size()) * sizeof(float);
  for (const Device* gpu : options.gpus) {
    LOG(INFO) << "A solver on " << gpu->name() << ", on a replica in its memory";
  }
  if (cluster_gpu() != nullptr) {
    LOG(INFO) << "The segments of the cluster work on the replica of "
              << cluster_gpu()->device().name();
  }
  if (*options.solvers == 0) return;
  const int slots = UpdateRuleRegistry::Get().Create(config.param, {}, 0)->slots();
  LOG(INFO) << *options.solvers << (*options.solvers > 1 ? " solvers" : " solver") << " on "
            << (options.shm.empty() ? "private" : "shared") << " weights of " << MiB(weight_bytes)
            << " MiB; each adds gradients and history of " << MiB((1 + slots) * weight_bytes)
            << " MiB, and its activations";
}

}  // namespace millrace::inline train
