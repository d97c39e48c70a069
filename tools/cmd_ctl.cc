// millrace ctl: watches and controls a run through its control service.
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/names.h"
#include "base/text/parse.h"
#include "control/cluster_addresses.h"
#include "control/control_client.h"
#include "control/run_report.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/flags.h"
#include "tools/progress_line.h"

DECLARE_string(topology);
DECLARE_string(node);
DECLARE_string(control);
DECLARE_bool(json);
DEFINE_string(key_file, "",
              "the cluster's key (default: that of --topology, or of the run itself)");
DEFINE_bool(tls, false, "the control service uses TLS");
DEFINE_string(authorities, "",
              "PEM file of the authorities that certificates of control services are checked by "
              "(default: the system's)");
DEFINE_double(timeout, 60,
              "seconds to wait until pause, snapshot, test or stop is done; 0: do not wait");

namespace millrace {
namespace {

using control_api::Status;
using Arguments = std::vector<std::string>;

constexpr const char* kActions =
    "status, pause, resume, snapshot, test, stop, rate NUMBER, events, metrics, nodes, commands, "
    "call NAME [JSON], token, read_token";

// Asks every 0.1 s until `holds` is true of the status. Throws Error after --timeout.
Status Await(const ControlClient& run, const std::string& what,
             const std::function<bool(const Status&)>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(FLAGS_timeout);
  for (;;) {
    const Status status = run.Status();
    if (holds(status)) return status;
    if (status.state() == "ended" || std::chrono::steady_clock::now() >= end) {
      throw Error("the run has not ", what, status.state() == "ended" ? " before its end" : "",
                  " within ", FLAGS_timeout, " s (--timeout); its log says why");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void PrintTests(const Status& status) {
  for (const control_api::Test& test : status.test()) {
    std::printf("test net #%d at iteration %d:", test.net(), test.iteration());
    const std::map<std::string, double> outputs(test.output().begin(), test.output().end());
    for (const auto& [name, value] : outputs) std::printf(" %s = %.4f", name.c_str(), value);
    std::printf("\n");
  }
}

std::string Text(const Status& status) {
  std::string text;
  if (status.has_node()) text += StrCat("node ", status.node(), " of ", status.cluster(), ": ");
  text += StrCat(status.state(), ", iteration ", status.iteration());
  if (status.max_iteration() > 0) text += StrCat(" of ", status.max_iteration());
  text += StrCat(", loss ", status.loss(), ", learning rate ", status.learning_rate());
  if (status.has_iterations_per_second()) {
    char rate[64];
    std::snprintf(rate, sizeof(rate), ", %.1f iterations/s", status.iterations_per_second());
    text += rate;
  }
  if (status.has_remaining_seconds()) {
    text += StrCat(", ", RemainingText(status.remaining_seconds()), " left");
  }
  return text;
}

void PrintStatus(const ControlClient& run) {
  if (FLAGS_json) {
    std::fputs(run.Get("/v1/status").c_str(), stdout);
    return;
  }
  const Status status = run.Status();
  std::printf("%s\n", Text(status).c_str());
  PrintTests(status);
  if (status.has_snapshot()) std::printf("last snapshot: %s\n", status.snapshot().c_str());
}

void Pause(const ControlClient& run) {
  run.Post("/v1/pause");
  std::printf("paused at iteration %d\n", run.Status().iteration());
}

void Snapshot(const ControlClient& run) {
  const int before = run.Status().snapshots_written();
  run.Post("/v1/snapshot");
  if (FLAGS_timeout <= 0) return;
  const Status status = Await(run, "written a snapshot",
                              [&](const Status& now) { return now.snapshots_written() > before; });
  std::printf("snapshot: %s\n", status.snapshot().c_str());
}

void Test(const ControlClient& run) {
  const int before = run.Status().tests_done();
  run.Post("/v1/test");
  if (FLAGS_timeout <= 0) return;
  PrintTests(Await(run, "tested", [&](const Status& now) { return now.tests_done() > before; }));
}

void Stop(const ControlClient& run) {
  run.Post("/v1/stop");
  if (FLAGS_timeout <= 0) return;
  try {
    Await(run, "ended", [](const Status& now) { return now.state() == "ended"; });
  } catch (const ServiceGone&) {  // with its process
  }
  std::printf("the run has ended\n");
}

void SetRate(const ControlClient& run, const std::string& text) {
  const auto rate = ParseNumber<double>(text);
  if (!rate) throw Error("ctl rate ", text, ": expected a number; 0: the solver file's");
  control_api::LearningRate message;
  message.set_rate(static_cast<float>(*rate));
  run.Post("/v1/learning_rate", JsonOf(message));
}

void PrintEvents(const ControlClient& run) {
  run.Events([&](std::string_view kind, std::string_view data) {
    if (FLAGS_json) {
      std::printf("{\"event\":\"%s\",\"status\":%s}\n", std::string(kind).c_str(),
                  std::string(data).c_str());
    } else {
      Status status;
      ReadJson(std::string(data), "an event", &status);
      std::printf("%s: %s\n", std::string(kind).c_str(), Text(status).c_str());
    }
    std::fflush(stdout);
    return true;
  });
}

void PrintCommands(const ControlClient& run) {
  control_api::Commands commands;
  ReadJson(run.Get("/v1/commands"), "the list of commands", &commands);
  for (const control_api::Command& each : commands.command()) {
    std::printf("%s  %s\n", each.name().c_str(), each.help().c_str());
  }
}

std::string NodeLine(const std::string& name, const std::string& control, bool is_self) {
  return StrCat(name, "  ", control.empty() ? "no control service" : control,
                is_self ? "  (this one)" : "", "\n");
}

void PrintNodes(const ControlClient& run) {
  control_api::Nodes nodes;
  ReadJson(run.Get("/v1/nodes"), "the list of nodes", &nodes);
  for (const control_api::Node& each : nodes.node()) {
    std::fputs(NodeLine(each.name(), each.address(), each.self()).c_str(), stdout);
  }
}

// The address of the control service of --node, or of the only node that has one.
std::string ElasticControl() {
  std::vector<std::string> names;
  std::string address;
  for (const auto& [name, control] : ReadElasticAddresses(RendezvousFromFlags())) {
    if (control.empty() || (!FLAGS_node.empty() && name != FLAGS_node)) continue;
    names.push_back(name);
    address = control;
  }
  if (names.size() == 1) return address;
  if (names.size() > 1) throw Error("ctl: expected --node with one of ", Joined(names));
  throw Error("--rendezvous=", FLAGS_rendezvous, ": no registered node",
              FLAGS_node.empty() ? "" : " " + FLAGS_node,
              " has a control service that others reach; `ctl nodes` lists the nodes");
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

int RunCtl(const Arguments& arguments) {
  const std::string action = arguments.empty() ? "" : arguments[0];
  const size_t given = arguments.empty() ? 0 : arguments.size() - 1;
  struct Action {
    size_t least, most;  // arguments
    std::function<void(const ControlClient&)> run;
  };
  const auto argument = [&](size_t i) { return i < given ? arguments[i + 1] : std::string(); };
  const std::map<std::string, Action> actions = {
      {"status", {0, 0, PrintStatus}},
      {"pause", {0, 0, Pause}},
      {"resume", {0, 0, [](const auto& run) { run.Post("/v1/resume"); }}},
      {"snapshot", {0, 0, Snapshot}},
      {"test", {0, 0, Test}},
      {"stop", {0, 0, Stop}},
      {"rate", {1, 1, [&](const auto& run) { SetRate(run, argument(0)); }}},
      {"events", {0, 0, PrintEvents}},
      {"metrics", {0, 0, [](const auto& run) { Print(run.Get("/v1/metrics")); }}},
      {"nodes", {0, 0, PrintNodes}},
      {"commands", {0, 0, PrintCommands}},
      {"call",
       {1, 2,
        [&](const auto& run) { Print(run.Post("/v1/commands/" + argument(0), argument(1))); }}},
      {"token", {0, 0, [](const auto& run) { Print(run.control_token() + "\n"); }}},
      {"read_token", {0, 0, [](const auto& run) { Print(run.read_token() + "\n"); }}},
  };
  const auto found = actions.find(WithUnderscores(action));
  if (found == actions.end()) {
    throw Error("ctl ", action.empty() ? "without an action" : action, ": expected one of ",
                kActions);
  }
  if (given < found->second.least || given > found->second.most) {
    throw Error("ctl ", action, ": ", given, " arguments given, expected as in ", kActions);
  }
  const bool is_elastic = !FLAGS_rendezvous.empty();
  if (is_elastic && (!FLAGS_topology.empty() || !FLAGS_control.empty())) {
    throw Error("ctl --rendezvous: expected neither --topology nor --control; --key_file gives ",
                "the key");
  }
  if (is_elastic && found->first == "nodes") {
    for (const auto& [name, control] : ReadElasticAddresses(RendezvousFromFlags())) {
      Print(NodeLine(name, control, false));
    }
    return 0;
  }
  found->second.run(ControlClient::Find({.address = is_elastic ? ElasticControl() : FLAGS_control,
                                         .topology = FLAGS_topology,
                                         .node = is_elastic ? "" : FLAGS_node,
                                         .key_file = FLAGS_key_file,
                                         .tls = FLAGS_tls,
                                         .authorities = FLAGS_authorities}));
  return 0;
}

const RegisterCommand registered_ctl({"ctl",
                                      "ACTION",
                                      "watches and controls a run through its control service",
                                      {"control", "topology", "node", "rendezvous",
                                       "rendezvous_user", "rendezvous_password_file", "key_file",
                                       "tls", "authorities", "timeout", "json"},
                                      RunCtl,
                                      {},
                                      "millrace ctl snapshot",
                                      kActions});

}  // namespace
}  // namespace millrace
