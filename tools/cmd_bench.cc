// millrace bench: measures the segments of a cluster without training.
#include <gflags/gflags.h>

#include <cstdio>

#include "data/data_service.h"
#include "linktest/measure_cluster.h"
#include "linktest/result.h"
#include "nn/net.h"
#include "nn/net_text.h"
#include "solver/solver.h"
#include "solver/solver_config.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/signals.h"

DECLARE_string(topology);
DECLARE_string(node);
DECLARE_string(solver);
DECLARE_bool(json);
DEFINE_double(seconds, 5, "how long to measure");
DEFINE_double(warmup, 1, "seconds of load before that");
DEFINE_double(wait, 60, "seconds to wait for nodes that are not there");
DEFINE_int64(floats, 0, "weights (default: those of --model or --solver, or else 1048576)");

namespace millrace {
namespace {

constexpr int64_t kDefaultFloats = 1 << 20;
constexpr int64_t kMaxFloats = int64_t{1} << 34;

int64_t WeightsOf(const caffe::NetParameter& param, const SourceMap& source,
                  const BuiltNetOptions& options) {
  return BuiltNet(param, source, options).layout().size();
}

// The number of weights: --floats, or that of the given net as in training, or a default.
int64_t WeightsFromFlags() {
  if (FLAGS_floats != 0) {
    if (!FLAGS_model.empty() || !FLAGS_solver.empty()) {
      throw Error("--floats: the net of --model or --solver has its own number; give one of them");
    }
    if (FLAGS_floats < 1 || FLAGS_floats > kMaxFloats) {
      throw Error("--floats=", FLAGS_floats, ": expected 1 to ", kMaxFloats);
    }
    return FLAGS_floats;
  }
  if (!FLAGS_model.empty() && !FLAGS_solver.empty()) {
    throw Error("--model and --solver: a solver brings its own net; give one of them");
  }
  DataService data(DataOptions{});
  if (!FLAGS_solver.empty()) {
    const SolverConfig config = LoadSolverConfig(FLAGS_solver, TrainStateFromFlags());
    return WeightsOf(config.train.param, config.train.source, TrainNetOptions(config, &data));
  }
  if (FLAGS_model.empty()) return kDefaultFloats;
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  BuiltNetOptions options;
  options.state = NetStateFromFlags(param);
  options.data = &data;
  return WeightsOf(param, source, options);
}

double Duration(const char* flag, double seconds, double least, double most) {
  // This form of the comparison also rejects NaN.
  if (!(seconds >= least && seconds <= most)) {
    throw Error("--", flag, "=", seconds, ": expected ", least, " to ", most, " seconds");
  }
  return seconds;
}

int RunBench(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("topology", FLAGS_topology);
  MeasureOptions options;
  options.topology = FLAGS_topology;
  options.node = FLAGS_node;
  options.seconds = Duration("seconds", FLAGS_seconds, 0.1, 3600);
  options.warm_up_seconds = Duration("warmup", FLAGS_warmup, 0, 3600);
  options.wait_seconds = Duration("wait", FLAGS_wait, 1, 86400);
  options.weights = WeightsFromFlags();
  // Before the first thread, so that all threads inherit its signal mask.
  SignalWatch signals(RunCommand::kStop, RunCommand::kStop);
  const std::optional<BenchResult> result =
      MeasureCluster(options, [&signals](int ms) { return signals.Next(ms) == RunCommand::kStop; });
  if (!result) return 0;
  std::fputs((FLAGS_json ? ResultJson(*result) : BenchTable(*result)).c_str(), stdout);
  return 0;
}

const RegisterCommand registered_bench({"bench",
                                        "",
                                        "measures the segments of a cluster without training",
                                        {"topology", "node", "seconds", "warmup", "wait", "floats",
                                         "model", "solver", "phase", "level", "stage", "json",
                                         "plugins"},
                                        RunBench});

}  // namespace
}  // namespace millrace
