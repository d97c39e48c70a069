// Reads a solver.prototxt and everything that it names, and rejects configurations that cannot be
// run, before anything is built. Files that Caffe 1.0 trains by are accepted; warnings name
// settings with effects that a user is unlikely to want.
#ifndef MILLRACE_SOLVER_SOLVER_CONFIG_H_
#define MILLRACE_SOLVER_SOLVER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device.h"
#include "nn/gpu/gpu_settings.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline solver {

// A net with the settings that a solver runs it with.
struct SolverNet {
  caffe::NetParameter param;
  SourceMap source;       // of `param`, for errors
  caffe::NetState state;  // phase by default, then the net's own, then the solver's
  std::string origin;     // "net file: lenet.prototxt", for logs
  int test_iter = 0;      // batches per test; 0 for the train net
};

class StrategyPlan;

struct SolverConfig {
  // As written, except that `type` is set (from solver_type in old files), snapshot_prefix is set
  // and complete, and no interval is negative.
  caffe::SolverParameter param;
  SourceMap source;
  std::shared_ptr<const StrategyPlan> strategy;  // of param.strategy; never null
  SolverNet train;
  // In Caffe's order: test_net_param, test_net, then net_param or net for the remaining test_iter
  // entries.
  std::vector<SolverNet> tests;
  uint64_t seed = 0;  // random_seed, or drawn now if that is negative
  GpuSettings gpu;    // of all nets; not in the file, the caller may set it
  // Lines that the caller logs: assumptions, and settings that are ignored.
  std::vector<std::string> notices;
  // Lines that the caller logs as warnings (solver_config.cc).
  std::vector<std::string> warnings;
};

// File access while a solver is read; tests replace it by data in memory.
struct SolverFiles {
  // Reads the net `path` that the solver file `named_in` names. Throws FieldError (of any field) if
  // there is no such file, Error if it is not a net.
  std::function<void(const std::string& path, const std::string& named_in, caffe::NetParameter* net,
                     SourceMap* source)>
      load_net;
  std::function<bool(const std::string& path)> is_folder;
  // Ensures that files can be created in `folder` ("" is the working directory), and creates it if
  // necessary. Throws Error.
  std::function<void(const std::string& folder)> prepare_folder;

  // Access to the disk. Net paths are relative to the working directory, as in Caffe, or else to
  // the folder of the solver file.
  static SolverFiles OnDisk();
};

// Reads the solver file `path`. `train_state` is merged into the file's train_state: its level
// replaces the file's, its stages come after the file's. Throws Error with the position in the
// file, the field and the expected value.
SolverConfig LoadSolverConfig(const std::string& path, const caffe::NetState& train_state = {});
// The same for text in memory; `name` stands for the file.
SolverConfig ParseSolverConfig(const std::string& text, const std::string& name,
                               const SolverFiles& files, const caffe::NetState& train_state = {});

// Why a run that asks for a GPU uses the CPU instead: `driver` is null (this build has no GPU
// support), finds no GPU, or this build has no layers for its GPUs. "" if there is a usable GPU.
std::string WhyNoGpu(DeviceDriver* driver);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SOLVER_CONFIG_H_
