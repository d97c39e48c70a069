// What a run does with the nets of its solver file: a check before their data are opened, options
// of test nets, and Caffe's debug_info.
#ifndef MILLRACE_TRAIN_TRAIN_NETS_H_
#define MILLRACE_TRAIN_TRAIN_NETS_H_

#include <filesystem>
#include <string>

#include <glog/logging.h>

#include "base/error.h"
#include "base/files/file.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "nn/net_param.h"
#include "proto/parse.h"
#include "solver/snapshot.h"
#include "solver/solver_config.h"

namespace millrace::inline train {

// Throws Error if layers of the train net or a test net have types that this build does not have
// (CheckLayerTypes).
inline void CheckNetTypes(const SolverConfig& config) {
  CheckLayerTypes(config.train.param, config.train.source, config.train.state);
  for (const SolverNet& test : config.tests) {
    CheckLayerTypes(test.param, test.source, test.state);
  }
}

// Throws Error, with file and line, if the solver file chooses a sampler and no layer of the train
// net, which reads `data`, has records to sample.
inline void CheckSampled(const SolverConfig& config, const DataService& data) {
  if (!config.param.has_sampler() || data.HasStreams("train")) return;
  throw Located(config.source, FieldError("sampler",
                                          "no layer of the train net reads records that "
                                          "can be sampled"));
}

// What the end of a run needs is tried at its start: throws Error, with file and line, if snapshots
// cannot hold the weights of `net` or their files cannot be made. If the run saves only when it is
// told to, logs a warning instead.
inline void CheckSnapshots(const SolverConfig& config, const BuiltNet& net) {
  const caffe::SolverParameter& param = config.param;
  const bool saves = param.snapshot() > 0 || param.snapshot_after_train();
  const std::string why = WhyNotSnapshot(net, param.snapshot_format(), param.snapshot_diff());
  if (!why.empty() && saves) throw Located(config.source, FieldError("snapshot_format", why));
  if (!why.empty()) LOG(WARNING) << "snapshot_format: " << why;
  if (!saves) return;
  const SnapshotPaths paths =
      SnapshotPathsOf(param.snapshot_prefix(), param.max_iter(), param.snapshot_format());
  for (const std::string& path : {paths.model, paths.state}) {
    try {
      const AtomicFile probe(path);  // removes its temporary file
      if (std::filesystem::is_directory(path)) throw Error(path, ": is a folder");
    } catch (const Error& error) {
      throw Located(
          config.source,
          FieldError("snapshot_prefix", "the last snapshot cannot be written: ", error.what()));
    }
  }
}

// Throws Error, with file and line, if a layer of the train net is to be synchronised with other
// solvers, of which there are several that do not step together.
inline void RefuseSynchronizedLayers(const SolverConfig& config) {
  const SolverNet& net = config.train;
  for (const PlacedLayer& layer : SelectLayers(net.param, net.state, net.source)) {
    if (!layer.param.batch_norm_param().synchronized()) continue;
    throw Error(PlaceOf(net.source, layer, "batch_norm_param.synchronized"), "strategy ",
                config.param.strategy().type(),
                " has no common batches of several solvers, expected strategy allreduce");
  }
}

// Names the data streams of test net `net`.
inline std::string TestScope(size_t net) { return StrCat("test", net); }

// Options of test net `net` of the solver file, on the host, which reads `data`.
inline BuiltNetOptions TestNetOptions(const SolverConfig& config, size_t net, DataService* data) {
  BuiltNetOptions options;
  options.state = config.tests[net].state;
  options.seed = config.seed;
  options.data = data;
  options.data_scope = TestScope(net);
  options.gpu = config.gpu;
  return options;
}

// Whether the train net logs its debug_info in `iteration`: as in Caffe, only if the solver file
// asks for it, and in the iterations that are displayed.
inline bool IsDebugInfoDue(const caffe::SolverParameter& solver, int64_t iteration) {
  return solver.debug_info() && solver.display() > 0 && iteration % solver.display() == 0;
}

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_TRAIN_NETS_H_
