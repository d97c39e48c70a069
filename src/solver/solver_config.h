// Reads a solver.prototxt and everything that it names, and refuses what cannot
// be run before anything is built from it.
#ifndef MILLRACE_SOLVER_SOLVER_CONFIG_H_
#define MILLRACE_SOLVER_SOLVER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace {

// A net as a solver runs it.
struct SolverNet {
  caffe::NetParameter param;
  SourceMap source;       // of `param`, for errors
  caffe::NetState state;  // phase by default, then the net's own, then the solver's
  std::string origin;     // "net file: lenet.prototxt", for logs
  int test_iter = 0;      // batches a test takes; 0 for the train net
};

struct SolverConfig {
  // As written, but: `type` is set (from solver_type in old files), and
  // snapshot_prefix is set and complete.
  caffe::SolverParameter param;
  SourceMap source;
  SolverNet train;
  // In Caffe's order: test_net_param, test_net, then net_param or net for the
  // test_iter entries that are left.
  std::vector<SolverNet> tests;
  uint64_t seed = 0;  // random_seed, or one drawn now if that is negative
  bool seed_is_drawn = false;
  // Lines that the caller logs: what was assumed, and what will not be honoured.
  std::vector<std::string> notices;
};

// What reading a solver touches beyond its own text; tests put memory in place
// of the disk.
struct SolverFiles {
  // Reads the net `path`, which the solver file `named_in` names. Throws
  // FieldError (of any field) if there is no such file, Error if it is no net.
  std::function<void(const std::string& path, const std::string& named_in, caffe::NetParameter* net,
                     SourceMap* source)>
      load_net;
  std::function<bool(const std::string& path)> is_folder;
  // Makes sure that files can be created in `folder` ("" is the working
  // directory), which it creates if need be. Throws Error.
  std::function<void(const std::string& folder)> prepare_folder;

  // The disk. Nets are looked up from the working directory, as Caffe does,
  // else beside the solver file.
  static SolverFiles OnDisk();
};

// Throws Error with the place in the file, the field and what was expected.
SolverConfig LoadSolverConfig(const std::string& path);
// The same for text already in memory; `name` stands for the file.
SolverConfig ParseSolverConfig(const std::string& text, const std::string& name,
                               const SolverFiles& files);

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SOLVER_CONFIG_H_
