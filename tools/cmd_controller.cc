// millrace controller: tells the workers of a run what to do next.
#include <gflags/gflags.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "millrace/controller.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/signals.h"

DECLARE_string(topology);
DECLARE_string(key_file);
DECLARE_bool(tls);
DECLARE_string(authorities);
DEFINE_string(addresses, "",
              "addresses of the workers' control services, with commas (default: the "
              "nodes of --topology that have `control`)");
DEFINE_string(script, "",
              "a Python file whose class Controller decides (default: early stopping by tests)");
DEFINE_string(state, "", "file that keeps what the program needs if it is started again");
DEFINE_string(test_output, "accuracy",
              "early stopping: the output of the first test net that counts");
DEFINE_bool(less_is_better, false, "early stopping: smaller values of --test_output are better");
DEFINE_int32(test_every, 500, "early stopping: iterations of the run between two tests");
DEFINE_int32(patience, 10, "early stopping: tests without a better one until the run is stopped");

namespace millrace {
namespace {

// Replaces this process by a Python that runs the script with the same options.
int RunScript() {
  const char* const python = std::getenv("PYTHON3");
  std::vector<std::string> command = {python != nullptr ? python : "python3", "-m",
                                      "millrace.controller", FLAGS_script};
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  add("--topology", FLAGS_topology);
  add("--addresses", FLAGS_addresses);
  add("--state", FLAGS_state);
  add("--key_file", FLAGS_key_file);
  add("--authorities", FLAGS_authorities);
  if (FLAGS_tls) command.push_back("--tls");
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw Error(command[0], " cannot be started: ", std::generic_category().message(errno));
}

int RunControllerCommand(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  if (!FLAGS_script.empty()) return RunScript();
  EarlyStopping controller({.output = FLAGS_test_output,
                            .greater_is_better = !FLAGS_less_is_better,
                            .test_every = FLAGS_test_every,
                            .patience = FLAGS_patience});
  SignalWatch signals(RunCommand::kStop, RunCommand::kStop);
  ControllerOptions options{.topology = FLAGS_topology,
                            .addresses = SplitList(FLAGS_addresses),
                            .key_file = FLAGS_key_file,
                            .tls = FLAGS_tls,
                            .authorities = FLAGS_authorities,
                            .state_file = FLAGS_state};
  options.stopped = [&] { return signals.Next(0) == RunCommand::kStop; };
  RunController(&controller, options);
  if (controller.best_iteration() < 0) {
    std::printf("no test was made\n");
    return 0;
  }
  std::printf("best %s: %.4f at iteration %lld\n", FLAGS_test_output.c_str(), controller.best(),
              static_cast<long long>(controller.best_iteration()));
  if (!controller.best_snapshot().empty()) {
    std::printf("its snapshot: %s\n", controller.best_snapshot().c_str());
  }
  return 0;
}

const RegisterCommand registered_controller(
    {"controller",
     "",
     "tells the workers of a run what to do next: tests, snapshots, when to stop",
     {"topology", "addresses", "script", "state", "test_output", "less_is_better", "test_every",
      "patience", "key_file", "tls", "authorities"},
     RunControllerCommand,
     {},
     "millrace controller --topology=cluster.prototxt --test_every=500 --patience=5"});

}  // namespace
}  // namespace millrace
