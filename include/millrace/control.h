// The control service of a run: an HTTP server with which operators, scripts and other machines
// watch and control it (docs/control.md). `millrace train --control=HOST:PORT` starts one.
//
//   auto run = millrace::Run::Start({.solver_file = "solver.prototxt"});
//   millrace::ControlService service({.address = "127.0.0.1:8400"}, run.get());
//
// A command of the program's own, which `millrace ctl call NAME JSON` calls:
//
//   const millrace::RegisterControlCommand registered(
//       {.name = "freeze", .help = "Freezes a layer.", .run = [](const millrace::ControlCall& call)
//       {
//          return Freeze(call.arguments) ? "true" : "false";
//        }});
#ifndef MILLRACE_CONTROL_H_
#define MILLRACE_CONTROL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

class MetricsRegistry;
class RunHandle;

struct ControlCall {
  RunHandle& run;
  const std::string& arguments;  // JSON of any type
};

struct ControlCommand {
  std::string name = "";  // 1 to 64 letters, digits, '-', '_', '.'
  std::string help = "";  // a sentence
  // Returns JSON of any type. Throws Error in one line, which the caller gets. Called by a thread
  // of the service, one call at a time.
  std::function<std::string(const ControlCall&)> run = {};
};

// Registers a command of all services of the process. Define one at namespace scope. The first
// command of a name stays; a second one, or a wrong name, is an error when plugins are loaded and
// when a run starts.
struct MILLRACE_API RegisterControlCommand {
  explicit RegisterControlCommand(ControlCommand command);
};

struct ControlOptions {
  // "host:port", "[IPv6 address]:port" or "port" (of 127.0.0.1); port 0: chosen by the system. "":
  // that of the node in the topology, else "127.0.0.1:0".
  std::string address = "";
  // The topology file and this node's name in it, if the run is one of a cluster: the addresses of
  // the other nodes, and the key.
  std::string topology = "";
  std::string node = "";
  // In place of these, for a run whose nodes join and leave by a registry: its URL, as
  // RunOptions.rendezvous, and a user of the registry with a file that holds the password.
  std::string rendezvous = "", rendezvous_user = "", rendezvous_password_file = "";
  // The secret of the cluster (docs/topology.md); "": the key_file of the topology's first segment
  // that has one. Without any, only a loopback address is possible, and this user's programs on
  // this machine find a secret of the run's own in /dev/shm.
  std::string key_file = "";
  // PEM files, for TLS: the certificate with its chain, its private key, and the authorities by
  // which this node checks the certificates of others. "": no TLS; of `authorities`: the system's.
  std::string certificate = "", private_key = "", authorities = "";
  std::string solver = "";             // path of the solver file, for the status
  MetricsRegistry* metrics = nullptr;  // which it shows and adds its own to; outlives it
  std::vector<ControlCommand> commands = {};
};

// Thread-safe.
class MILLRACE_API ControlService {
 public:
  // Listens from now on, with threads of its own. `run` outlives this object. Throws Error in one
  // line for a wrong option or an address that cannot be had.
  ControlService(const ControlOptions& options, RunHandle* run);
  // Closes all connections.
  ~ControlService();
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  // Where it listens: "http://127.0.0.1:8400".
  std::string url() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_CONTROL_H_
