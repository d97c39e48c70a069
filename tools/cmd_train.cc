// millrace train: trains a net as configured by its solver file.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <cstdio>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "control/cluster_addresses.h"
#include "millrace/control.h"
#include "solver/pass_graphs.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/progress_line.h"
#include "tools/signals.h"
#include "train/choose_gpus.h"
#include "train/run_monitor.h"
#include "train/train_run.h"

DEFINE_string(solver, "", "the solver: a prototxt file");
DEFINE_int32(cpu, 1, "solver threads on processors that share the weights (with --gpu: default 0)");
DEFINE_double(gpu_max_mbps, 0,
              "Mbit/s between a GPU's weights and the host's, in each direction (0: no limit)");
DEFINE_string(
    cuda_graphs, "auto",
    "training iterations on GPUs as CUDA graphs: auto (where the net allows it), on (else "
    "an error) or off");
DEFINE_string(snapshot, "", "continue from this .solverstate file");
DEFINE_string(metrics, "", "append loss, rate and test results to this file, as JSON lines");
DEFINE_string(tensorboard, "", "write loss, rate and test results for TensorBoard to this folder");
DEFINE_string(
    shard, "",
    "train on part i of n of the records, as i/n (default: as the topology says, or all)");
DEFINE_string(topology, "", "the cluster that this machine trains in: a prototxt file");
DEFINE_string(node, "", "this machine's name in the topology (default: as mpirun or srun says)");
DEFINE_string(control, "",
              "address of the control service: host:port, or a port of 127.0.0.1 (default: the "
              "node's `control` in the topology, or none)");
DEFINE_string(control_certificate, "", "PEM file of the control service's certificate, for TLS");
DEFINE_string(control_private_key, "", "PEM file of its private key");
DECLARE_string(key_file);
DECLARE_string(authorities);
DEFINE_string(sigint_effect, "stop", "what SIGINT does: stop, snapshot or none");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does: stop, snapshot or none");

namespace millrace {
namespace {

void ParseShard(const std::string& text, TrainOptions* options) {
  unsigned long long index = 0, count = 0;
  char rest = 0;
  if (text.find_first_not_of("0123456789/") != std::string::npos ||
      std::sscanf(text.c_str(), "%llu/%llu%c", &index, &count, &rest) != 2 || index >= count) {
    throw Error("--shard=", text, ": expected i/n with 0 <= i < n");
  }
  options->shard_index = index;
  options->shard_count = count;
}

// Null: neither --control nor the topology asks for a control service.
std::unique_ptr<ControlService> StartControl(const TrainOptions& options, RunMonitor* monitor) {
  // The segments of an elastic cluster name no nodes, and so no control services.
  const std::string topology = options.rendezvous.url.empty() ? options.topology : "";
  if (FLAGS_control.empty() && !HasControlService(topology, options.node)) return nullptr;
  auto service = std::make_unique<ControlService>(
      ControlOptions{.address = FLAGS_control,
                     .topology = topology,
                     .node = options.node,
                     .rendezvous = options.rendezvous.url,
                     .rendezvous_user = options.rendezvous.user,
                     .rendezvous_password_file = options.rendezvous.password_file,
                     .key_file = FLAGS_key_file,
                     .certificate = FLAGS_control_certificate,
                     .private_key = FLAGS_control_private_key,
                     .authorities = FLAGS_authorities,
                     .solver = options.solver_file,
                     .metrics = options.registry},
      monitor);
  LOG(INFO) << "Control service: " << service->url();
  return service;
}

int RunTrain(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("solver", FLAGS_solver);
  TrainOptions options;
  options.solver_file = FLAGS_solver;
  if (!gflags::GetCommandLineFlagInfoOrDie("cpu").is_default) options.solvers = FLAGS_cpu;
  options.gpu_settings = GpuSettingsFromFlags();
  options.gpu_settings.graphs = ParseGraphUse(FLAGS_cuda_graphs);
  options.gpus = ChooseGpus(FLAGS_gpu);
  if (FLAGS_gpu_max_mbps < 0) {
    throw Error("--gpu_max_mbps=", FLAGS_gpu_max_mbps, ": expected at least 0");
  }
  options.gpu_max_mbps = FLAGS_gpu_max_mbps;
  options.weights = SplitList(FLAGS_weights);
  options.snapshot = FLAGS_snapshot;
  options.shm = FLAGS_shm;
  options.metrics = FLAGS_metrics;
  options.tensorboard = FLAGS_tensorboard;
  options.topology = FLAGS_topology;
  options.node = FLAGS_node;
  options.rendezvous = RendezvousFromFlags();
  options.train_state = TrainStateFromFlags();
  if (!FLAGS_shard.empty()) ParseShard(FLAGS_shard, &options);
  // Before the first thread, so that all threads inherit its signal mask.
  SignalWatch signals(ParseSignalEffect("sigint_effect", FLAGS_sigint_effect),
                      ParseSignalEffect("sighup_effect", FLAGS_sighup_effect));
  TerminalProgress progress;
  options.registry = &MetricsRegistry::OfProcess();  // with the metrics of plugins
  const SteadyClock clock;
  RunMonitor monitor(&clock, &signals, &progress);
  const std::unique_ptr<ControlService> control = StartControl(options, &monitor);
  if (control) {
    const std::string url = control->url();
    options.rendezvous.control = url.substr(url.find("://") + 3);
  }
  options.control = control ? static_cast<RunControl*>(&monitor) : &signals;
  options.observer = control ? static_cast<RunObserver*>(&monitor) : &progress;

  const TrainResult result = Train(options);
  monitor.SetEnded();
  for (size_t net = 0; net < result.tests.size(); ++net) {
    const std::string begin = result.tests.size() > 1 ? StrCat("test net #", net, ": ") : "";
    for (const OutputMean& output : result.tests[net].outputs) {
      std::printf("%s%s = %.4f\n", begin.c_str(), output.name.c_str(), output.mean);
    }
  }
  if (!result.model.empty()) std::printf("model saved: %s\n", result.model.c_str());
  if (!result.failure.empty()) throw Error(result.failure);
  return 0;
}

const RegisterCommand registered_train({"train",
                                        "",
                                        "trains a net as its solver file says",
                                        {"solver",
                                         "cpu",
                                         "gpu",
                                         "precision",
                                         "gpu_fused_bias",
                                         "gpu_measure_seconds",
                                         "gpu_transform",
                                         "cuda_graphs",
                                         "gpu_max_mbps",
                                         "weights",
                                         "snapshot",
                                         "shm",
                                         "metrics",
                                         "tensorboard",
                                         "shard",
                                         "topology",
                                         "node",
                                         "rendezvous",
                                         "nodes",
                                         "rendezvous_address",
                                         "rendezvous_user",
                                         "rendezvous_password_file",
                                         "control",
                                         "control_certificate",
                                         "control_private_key",
                                         "key_file",
                                         "authorities",
                                         "level",
                                         "stage",
                                         "sigint_effect",
                                         "sighup_effect",
                                         "plugins"},
                                        RunTrain,
                                        {"model", "phase", "iterations"},
                                        "millrace train --solver=lenet_solver.prototxt --cpu=2"});

}  // namespace
}  // namespace millrace
