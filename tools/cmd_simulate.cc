// millrace simulate: training by many workers in one process, in virtual time.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/parse.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "metrics/metrics_writer.h"
#include "simulate/simulation.h"
#include "solver/solver_config.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/signals.h"

DECLARE_string(solver);
DECLARE_string(snapshot);
DECLARE_string(metrics);
DECLARE_uint64(seed);
DECLARE_int32(threads);
DEFINE_int32(workers, 2, "simulated workers, each with a solver on weights of its own");
DEFINE_double(step_ms, 10, "virtual duration of an iteration");
DEFINE_double(jitter, 0.1, "share by which durations vary");
DEFINE_string(slow, "", "WORKER:FACTOR,...: workers whose iterations last longer");
DEFINE_double(delay_ms, 0.1, "from one worker to another, one way");
DEFINE_double(loss, 0, "share of the packets that are lost, 0 to 0.9");
DEFINE_double(max_mbps, 1000, "rate of each worker's link, in each direction");
DEFINE_int32(mtu, 9000, "bytes of a packet");
DEFINE_string(rule, "",
              "merge rule, with parameters: NAME or NAME:KEY=VALUE,...; default: as of a segment");
DEFINE_string(codec, "",
              "of diffs: float32, bfloat16, int8, int4, sparse:THRESHOLD, topk:SHARE or "
              "random:SHARE; default: as of a segment");
DEFINE_string(position_codec, "",
              "of positions: float32, bfloat16, int8, int4, topk or topk:SHARE; default: as of a "
              "segment");
DEFINE_string(scaling, "linear", "learning rate of workers, as Topology.scaling: linear or none");
DEFINE_bool(damping, true, "damp stale progress; default: as of a segment");
DEFINE_int64(snapshot_every, 0,
             "iterations of all workers together between snapshots, for which all come to rest; 0: "
             "no snapshots");
DEFINE_string(save, "", "write the weights to this .caffemodel file");

namespace millrace {
namespace {

// Calls each(part) for the parts of `text` between commas; none for "".
template <typename Each>
void ForEachPart(const std::string& text, Each each) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    each(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// The two sides of `separator` in `text`. Throws Error if there is none.
std::pair<std::string, std::string> Halves(const std::string& flag, const std::string& text,
                                           char separator, const std::string& expected) {
  const size_t at = text.find(separator);
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw Error("--", flag, ": \"", text, "\" given, expected ", expected);
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

double NumberOf(const std::string& flag, const std::string& text) {
  const std::optional<double> value = ParseNumber<double>(text);
  if (!value) throw Error("--", flag, ": \"", text, "\" given, expected a number");
  return *value;
}

MergeRuleConfig RuleOf(const std::string& text) {
  MergeRuleConfig rule;
  const size_t colon = text.find(':');
  rule.name = text.substr(0, colon);
  if (colon == std::string::npos) return rule;
  ForEachPart(text.substr(colon + 1), [&](const std::string& part) {
    const auto [key, value] = Halves("rule", part, '=', "NAME:KEY=VALUE,...");
    rule.parameters[key] = NumberOf("rule", value);
  });
  return rule;
}

CodecConfig CodecOf(const std::string& text) {
  const std::optional<CodecConfig> codec = ParseCodec(text);
  if (codec) return *codec;
  throw Error(
      "--codec: \"", text,
      "\" given, expected float32, bfloat16, int8, int4, sparse:THRESHOLD with a threshold above "
      "0, or topk:SHARE or random:SHARE with a share above 0 and at most 1");
}

void ReadPositionCodec(const std::string& text, SimulationOptions* options) {
  if (const std::optional<Codec> codec = PositionCodecNamed(text)) {
    options->position_codec = *codec;
    return;
  }
  const std::optional<CodecConfig> codec = ParseCodec(text);
  if (!codec || codec->choice != SparseChoice::kTop) {
    throw Error("--position_codec: \"", text, "\" given, expected one of ", kPositionCodecNames,
                " or topk:SHARE, with a share above 0 and at most 1");
  }
  options->position_codec = codec->codec;
  options->position_share = codec->share;
}

SimulationOptions OptionsFromFlags() {
  SimulationOptions options;
  options.workers = FLAGS_workers;
  options.step_ms = FLAGS_step_ms;
  options.jitter = FLAGS_jitter;
  ForEachPart(FLAGS_slow, [&](const std::string& part) {
    const auto [worker, factor] = Halves("slow", part, ':', "WORKER:FACTOR,...");
    const double index = NumberOf("slow", worker);
    if (index != static_cast<int>(index)) {
      throw Error("--slow: \"", worker, "\" given, expected the number of a worker");
    }
    options.slow[static_cast<int>(index)] = NumberOf("slow", factor);
  });
  options.network = {FLAGS_max_mbps, FLAGS_delay_ms, FLAGS_loss};
  options.mtu = FLAGS_mtu;
  options.rule = RuleOf(FLAGS_rule);
  if (!FLAGS_codec.empty()) options.codec = CodecOf(FLAGS_codec);
  if (!FLAGS_position_codec.empty()) ReadPositionCodec(FLAGS_position_codec, &options);
  const std::optional<bool> scales = ScalesRate(FLAGS_scaling);
  if (!scales) throw Error("--scaling=", FLAGS_scaling, ": expected ", kScalings);
  options.scales = *scales;
  if (!gflags::GetCommandLineFlagInfoOrDie("damping").is_default) options.damping = FLAGS_damping;
  options.seed = FLAGS_seed;
  options.threads = FLAGS_threads;
  options.snapshot_every = FLAGS_snapshot_every;
  options.snapshot = FLAGS_snapshot;
  return options;
}

// "12.3 kB": three digits.
std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  char number[32];
  std::snprintf(number, sizeof(number), "%.*f",
                bytes >= 99.95 || unit == 0 ? 0
                : bytes >= 9.995            ? 1
                                            : 2,
                bytes);
  return StrCat(number, " ", kUnits[unit]);
}

MetricsRow RowOf(const SimulationStatus& status) {
  MetricsRow row;
  row.set_time(status.seconds);
  row.set_iter(static_cast<int32_t>(status.iterations));
  (*row.mutable_segments())["simulated.bytes_sent"] = static_cast<double>(status.bytes_sent);
  (*row.mutable_segments())["simulated.staleness"] = status.staleness;
  return row;
}

int RunSimulate(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("solver", FLAGS_solver);
  const SolverConfig config = LoadSolverConfig(FLAGS_solver);
  for (const std::string& notice : config.notices) LOG(INFO) << notice;
  for (const std::string& warning : config.warnings) LOG(WARNING) << warning;
  SignalWatch signals(RunCommand::kStop, RunCommand::kStop);
  Simulation simulation(config, OptionsFromFlags());
  std::unique_ptr<MetricsWriter> metrics;
  if (!FLAGS_metrics.empty()) {
    metrics = std::make_unique<MetricsWriter>(FLAGS_metrics);
    MetricsRow row;
    row.mutable_run()->set_name(config.train.param.name());
    row.mutable_run()->set_solver(FLAGS_solver);
    row.mutable_run()->set_solvers(FLAGS_workers);
    row.mutable_run()->set_max_iter(config.param.max_iter());
    row.mutable_run()->set_seed(config.seed);
    metrics->Write(row);
  }
  bool stopped = false;
  SimulationObserver observer;
  observer.stop = [&] { return stopped = stopped || signals.Next(0) == RunCommand::kStop; };
  observer.iteration = [&](const SimulationStatus& status) {
    LOG(INFO) << "Iteration " << status.iterations << " (" << status.seconds
              << " s of virtual time), loss = " << status.loss << ", lr = " << status.rate;
    if (!metrics) return;
    MetricsRow row = RowOf(status);
    row.mutable_train()->set_loss(status.loss);
    row.mutable_train()->set_learning_rate(status.rate);
    metrics->Write(row);
  };
  observer.test = [&](const SimulationStatus& status, int index, const Evaluation& found) {
    LOG(INFO) << "Iteration " << status.iterations << ", Testing net (#" << index << ")";
    MetricsRow row = RowOf(status);
    row.mutable_test()->set_net(index);
    for (size_t i = 0; i < found.outputs.size(); ++i) {
      const OutputMean& output = found.outputs[i];
      LOG(INFO) << "    Test net output #" << i << ": " << output.name << " = " << output.mean
                << LossNote(output.loss_weight, output.mean);
      (*row.mutable_test()->mutable_outputs())[output.name] = output.mean;
    }
    if (metrics) metrics->Write(row);
  };
  const SimulationStatus end = simulation.Run(observer);
  if (!end.stop_reason.empty()) LOG(INFO) << "Stop condition " << end.stop_reason;
  if (!FLAGS_save.empty()) simulation.Save(FLAGS_save);
  std::printf(
      "workers %d, iterations %lld, virtual seconds %.3f, loss %.6g, staleness %.3g "
      "iterations, sent %s (%s an iteration)\n",
      FLAGS_workers, static_cast<long long>(end.iterations), end.seconds, end.loss, end.staleness,
      BytesText(static_cast<double>(end.bytes_sent)).c_str(),
      BytesText(end.iterations ? static_cast<double>(end.bytes_sent) / end.iterations : 0.0)
          .c_str());
  return 0;
}

const RegisterCommand registered_simulate(
    {"simulate",
     "",
     "trains by many workers in one process, in virtual time, on a simulated network",
     {"solver",   "workers", "step_ms", "jitter", "slow",           "delay_ms",       "loss",
      "max_mbps", "mtu",     "rule",    "codec",  "position_codec", "damping",        "scaling",
      "seed",     "threads", "metrics", "save",   "snapshot",       "snapshot_every", "plugins"},
     RunSimulate,
     {},
     "millrace simulate --solver=lenet_solver.prototxt --workers=16 --max_mbps=1000 --loss=0.01"});

}  // namespace
}  // namespace millrace
