// The commands that start the nodes of a cluster: as processes of this machine, over ssh, or in
// network namespaces.
#ifndef MILLRACE_CONTROL_LAUNCH_NODE_COMMANDS_H_
#define MILLRACE_CONTROL_LAUNCH_NODE_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "rendezvous/rendezvous.h"

namespace millrace::inline control {

enum class LaunchMethod {
  kAuto,        // nodes with an address of this machine as processes, others over ssh
  kLocal,       // processes of this machine
  kSsh,         // ssh ADDRESS, with the same folder and program
  kNamespaces,  // network namespaces of this machine, joined by a bridge; needs root
};

// Throws Error for any other text than auto, local, ssh or namespaces.
LaunchMethod ParseLaunchMethod(const std::string& text);

// The nodes of an elastic run that are started here.
struct ElasticNodes {
  RendezvousOptions rendezvous = {};
  // IP addresses or names of the machines, one for each node; a node registers with its host if
  // that is an IP address. Empty: `processes` of this machine.
  std::vector<std::string> hosts = {};
  // Several have the addresses 127.0.0.1, 127.0.0.2, ..., so the registry has to be on a loopback
  // address, too. 0: the smallest number of nodes that the run begins with.
  int processes = 0;
};

struct LaunchRequest {
  std::string topology = "";                // path; "": the segments of an elastic run by default
  std::vector<std::string> arguments = {};  // of millrace: "train", "--solver=..."
  LaunchMethod method = LaunchMethod::kAuto;
  bool all_devices = false;  // each node uses its GPUs, else its processors but one
  std::string program = "";  // path of millrace
  std::string folder = "";   // working directory
  double stop_seconds = 60;  // over ssh: from a stop, or the end of the connection, to SIGKILL
  // With a rendezvous.url: its nodes, and `topology` has segments only; else those of the topology.
  ElasticNodes elastic = {};
};

struct NodeCommand {
  std::string node = "";
  std::vector<std::string> command = {};
  // The end of its standard input stops the node. Otherwise SIGINT does.
  bool stops_by_input = false;
};

// Whether a host name or address is this machine's.
using IsThisMachine = std::function<bool(const std::string& host)>;
bool IsAddressOfThisMachine(const std::string& host);

// In the order of the topology, or of the hosts. `lab`: prefix of the namespaces' names. Throws
// Error for a bad topology or rendezvous, or one that the method cannot start.
std::vector<NodeCommand> NodeCommands(const LaunchRequest& request, const std::string& lab,
                                      const IsThisMachine& is_this_machine);

// Network namespaces with the addresses of the nodes of a topology, as long as this object exists.
class NamespaceLab {
 public:
  // Throws Error if they cannot be made.
  NamespaceLab(const std::string& topology, const std::string& lab);
  ~NamespaceLab();
  NamespaceLab(const NamespaceLab&) = delete;
  NamespaceLab& operator=(const NamespaceLab&) = delete;

 private:
  void Make(const std::string& topology);
  void Remove();

  const std::string lab_;
  std::vector<std::string> names_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_LAUNCH_NODE_COMMANDS_H_
