// Text of a solver.prototxt, with nets held in memory: it is accepted, or rejected with one line.
#include <cmath>

#include "base/error.h"
#include "solver/lr_policy.h"
#include "solver/solver_config.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {
      "net: \"net\"\ntest_iter: 100\ntest_interval: 500\nbase_lr: 0.01\nmomentum: 0.9\n"
      "weight_decay: 0.0005\nlr_policy: \"inv\"\ngamma: 0.0001\npower: 0.75\ndisplay: 100\n"
      "max_iter: 10000\nsnapshot: 5000\nsnapshot_prefix: \"out/lenet\"\nsolver_mode: CPU\n",
      "train_net: \"net\" test_net: \"net\" test_iter: 3 test_interval: 1 base_lr: 1\n"
      "lr_policy: 'multistep' gamma: 0.1 stepvalue: 10 stepvalue: 20 max_iter: 30\n"
      "test_state { level: 1 stage: 'a' } iter_size: 2 clip_gradients: 35 random_seed: 3\n",
      "net_param { name: 'n' layer { name: 'a' type: 'Input' } state { level: 2 } }\n"
      "base_lr: 1 lr_policy: 'poly' power: 2 max_iter: 30 regularization_type: 'L1'\n"
      "solver_type: SGD average_loss: 10 test_iter: 1 test_iter: 2 test_interval: 9\n",
      "train_net_param { } test_net_param { } test_iter: 1 test_interval: 1 base_lr: 1\n"
      "lr_policy: 'sigmoid' gamma: 1 stepsize: 5 max_iter: 9 snapshot_format: BINARYPROTO\n",
      "net: 'net' base_lr: 1 lr_policy: 'step' gamma: 0.5 stepsize: 100 max_iter: 3 type: 'SGD'\n",
      "net: 'net' base_lr: 1 lr_policy: 'exp' gamma: 0.5 max_iter: 3 snapshot_prefix: 'folder'\n",
      "net: 'net' type: 'RMSProp' rms_decay: 0.9 delta: 1e-4 base_lr: -1 lr_policy: 'multistep'\n"
      "stepvalue: 9 stepvalue: 3 display: -5 snapshot: -7 random_seed: -2 snapshot_format: HDF5\n",
      "net: 'net' solver_type: ADAM momentum: 0.9 momentum2: 0.99 lr_policy: 'fixed' test_iter: 0\n"
      "test_interval: 1 weights: 'a, b' weights: 'c' debug_info: true layer_wise_reduce: false\n",
  };
}

bool Target(const std::string& input) {
  SolverFiles files;
  files.load_net = [](const std::string& path, const std::string&, caffe::NetParameter* net,
                      SourceMap* source) {
    if (path != "net") throw FieldError("", path, ": No such file or directory");
    ParseText("name: 'n' layer { name: 'a' }", path, net, source);
  };
  files.is_folder = [](const std::string& path) { return path == "folder"; };
  files.prepare_folder = [](const std::string& folder) {
    if (folder.size() > 20) throw Error(folder, ": Permission denied");
  };
  try {
    const SolverConfig config = ParseSolverConfig(input, "solver.prototxt", files);
    // An accepted configuration is usable.
    const LrPolicy policy(config.param);
    for (int64_t iteration : {0, 1, 1000000}) {
      if (std::isnan(policy.Rate(iteration))) return false;
    }
    return static_cast<int>(config.tests.size()) == config.param.test_iter_size() &&
           !config.param.snapshot_prefix().empty();
  } catch (const Error& error) {
    return std::string(error.what()).rfind("solver.prototxt", 0) == 0;
  }
}

}  // namespace millrace::fuzz
