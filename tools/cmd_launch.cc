// millrace launch: runs all nodes of a cluster.
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "control/launch/launcher.h"
#include "control/launch/node_commands.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/signals.h"

DECLARE_string(topology);
DEFINE_string(hosts, "",
              "with --rendezvous: IP addresses or names of the machines, HOST,HOST,..., each of "
              "which gets a node");
DEFINE_int32(processes, 0,
             "with --rendezvous: nodes of this machine (default: the MIN of --nodes); several need "
             "a registry at 127.0.0.1");
DEFINE_string(by, "auto",
              "how nodes are started: auto (with an address of this machine as processes, others "
              "over ssh), local, ssh, or namespaces (for trials on one machine; root)");
DEFINE_int32(restarts, 3, "how often each node is started again if it fails");
DEFINE_bool(all_devices, false, "each node uses all its GPUs, or else all its processors but one");

namespace millrace {
namespace {

ElasticNodes ElasticFromFlags() {
  if (FLAGS_rendezvous.empty()) {
    for (const auto& [flag, is_set] :
         {std::pair("nodes", !FLAGS_nodes.empty()), std::pair("hosts", !FLAGS_hosts.empty()),
          std::pair("processes", FLAGS_processes != 0)}) {
      if (is_set) throw Error("--", flag, ": expected --rendezvous with it");
    }
    RequireFlag("topology", FLAGS_topology);
    return {};
  }
  const ElasticNodes elastic{.rendezvous = RendezvousFromFlags(),
                             .hosts = SplitList(FLAGS_hosts),
                             .processes = FLAGS_processes};
  if (!elastic.hosts.empty() && elastic.processes != 0) {
    throw Error("--hosts and --processes: expected one of them");
  }
  ParseRendezvous(elastic.rendezvous);  // its mistakes in one line, not in one of each node
  return elastic;
}

int RunLaunch(const std::vector<std::string>& arguments) {
  const ElasticNodes elastic = ElasticFromFlags();
  if (FLAGS_restarts < 0) throw Error("--restarts=", FLAGS_restarts, ": expected at least 0");
  const LaunchRequest request{.topology = FLAGS_topology,
                              .arguments = arguments,
                              .method = ParseLaunchMethod(FLAGS_by),
                              .all_devices = FLAGS_all_devices,
                              .program = std::filesystem::read_symlink("/proc/self/exe").string(),
                              .folder = std::filesystem::current_path().string(),
                              .elastic = elastic};
  const std::string lab = StrCat("millrace-", getpid());
  const std::vector<NodeCommand> commands = NodeCommands(request, lab, IsAddressOfThisMachine);
  SignalWatch signals(RunCommand::kStop, RunCommand::kStop);
  std::optional<NamespaceLab> namespaces;
  if (request.method == LaunchMethod::kNamespaces) namespaces.emplace(request.topology, lab);
  const SteadyClock clock;
  Launcher launcher({.restarts = FLAGS_restarts}, commands, &signals, &clock,
                    [](bool is_error, const std::string& line) {
                      FILE* const to = is_error ? stderr : stdout;
                      std::fprintf(to, "%s\n", line.c_str());
                      std::fflush(to);
                    });
  return launcher.Run();
}

const RegisterCommand registered_launch(
    {"launch",
     "-- COMMAND...",
     "runs a command of millrace on all nodes of a cluster",
     {"topology", "rendezvous", "nodes", "hosts", "processes", "rendezvous_user",
      "rendezvous_password_file", "authorities", "by", "restarts", "all_devices"},
     RunLaunch,
     {},
     "millrace launch --topology=pair.prototxt -- train --solver=solver.prototxt"});

}  // namespace
}  // namespace millrace
