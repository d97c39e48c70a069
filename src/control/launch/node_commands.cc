#include "control/launch/node_commands.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/error.h"
#include "millrace/file_descriptor.h"
#include "topology/topology.h"
#include "transport/network_names.h"

namespace millrace::inline control {
namespace {

// `text` as one word of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + Quoted(word);
  return line;
}

// Adds the flags to a command that use the GPUs of the machine that it runs on, else its processors
// but one.
std::vector<std::string> WithAllDevices(const std::vector<std::string>& command) {
  std::vector<std::string> wrapped = {
      "sh", "-c",
      "n=$(nproc); [ \"$n\" -gt 1 ] && n=$((n - 1)); "
      "if \"$1\" device_query >/dev/null 2>&1; then set -- \"$@\" --gpu=all; "
      "else set -- \"$@\" --cpu=\"$n\"; fi; exec \"$@\"",
      "millrace"};
  wrapped.insert(wrapped.end(), command.begin(), command.end());
  return wrapped;
}

// On the other machine the program gets SIGTERM when the standard input of ssh ends, or the
// connection, and SIGKILL after `stop_seconds`. Its output and exit status come back in the former
// case.
std::vector<std::string> OverSsh(const std::string& host, const std::string& folder,
                                 double stop_seconds, const std::vector<std::string>& command) {
  const std::string line = StrCat(
      "cd ", Quoted(folder), " || exit 1; exec 3<&0; ", ShellLine(command),
      " 3<&- </dev/null & child=$!; { trap 'kill $!; exit' TERM; cat <&3 & wait $!; ",
      "kill -TERM $child; sleep ", stop_seconds, " 3<&- & wait $!; kill -KILL $child; } ",
      ">/dev/null 2>&1 & watch=$!; wait $child; status=$?; kill $watch 2>/dev/null; exit $status");
  return {"ssh", "-o", "BatchMode=yes", host, StrCat("sh -c ", Quoted(line))};
}

std::string NamespaceOf(const std::string& lab, const std::string& node) {
  return lab + "-" + node;
}

// A node that is to be started.
struct Place {
  std::string name;
  std::string host;                // "": this machine
  std::vector<std::string> flags;  // behind the command
};

std::vector<Place> TopologyPlaces(const LaunchRequest& request) {
  const Topology topology = LoadTopology(request.topology, TransportsForTopologies());
  std::vector<Place> places;
  for (const TopologyNode& node : topology.nodes) {
    places.push_back({node.name,
                      node.adapters.front().address,
                      {"--topology=" + request.topology, "--node=" + node.name}});
  }
  return places;
}

// A host for each node; "": this machine, at the address from which it reaches the registry.
std::vector<std::string> ElasticHosts(const ElasticNodes& elastic) {
  if (!elastic.hosts.empty()) return elastic.hosts;
  const RendezvousConfig config = ParseRendezvous(elastic.rendezvous);
  const int processes = elastic.processes == 0 ? config.min_nodes : elastic.processes;
  if (processes < 1 || processes > config.max_nodes) {
    throw Error("--processes=", processes, ": expected 1 to ", config.max_nodes,
                ", the MAX of --nodes");
  }
  if (processes == 1) return {""};
  if (!IsOfThisMachine(config)) {
    throw Error("--processes=", processes, ": the nodes of a machine need an address each; ",
                "expected them as --hosts, or a registry at 127.0.0.1, whose nodes get 127.0.0.1, ",
                "127.0.0.2 and so on");
  }
  std::vector<std::string> hosts;
  for (int i = 1; i <= processes; ++i) {
    hosts.push_back(StrCat("127.0.", i / 256, ".", i % 256));
  }
  return hosts;
}

std::vector<Place> ElasticPlaces(const LaunchRequest& request) {
  const RendezvousOptions& options = request.elastic.rendezvous;
  if (request.method == LaunchMethod::kNamespaces) {
    throw Error("--by=namespaces: expected a topology that names the nodes, not --rendezvous");
  }
  std::vector<std::string> shared = {"--rendezvous=" + options.url, "--nodes=" + options.nodes};
  const auto add = [&shared](const std::string& flag, const std::string& value) {
    if (!value.empty()) shared.push_back(StrCat("--", flag, "=", value));
  };
  add("topology", request.topology);
  add("rendezvous_user", options.user);
  add("rendezvous_password_file", options.password_file);
  add("authorities", options.authorities);
  const std::vector<std::string> hosts = ElasticHosts(request.elastic);
  std::vector<Place> places;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const auto host = ParseHost(hosts[i]);
    if (!host && !hosts[i].empty()) {
      throw Error("--hosts: \"", hosts[i], "\" given, expected an IP address or a host name");
    }
    const auto is_same = [&](const Place& place) { return place.host == hosts[i]; };
    if (std::ranges::any_of(places, is_same)) {
      throw Error("--hosts: \"", hosts[i], "\" is given twice; the nodes of a machine need an ",
                  "address each");
    }
    places.push_back({hosts[i].empty() ? "1" : hosts[i], hosts[i], shared});
    if (host && host->kind != HostKind::kName) {
      places.back().flags.push_back("--rendezvous_address=" + host->text);
    }
  }
  return places;
}

// Throws Error with the output if it fails.
void RunIp(const std::string& arguments) {
  const std::string line = "ip " + arguments + " 2>&1";
  FILE* const pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw Error("ip ", arguments, ": cannot be started");
  std::string output;
  char bytes[256];
  while (std::fgets(bytes, sizeof(bytes), pipe) != nullptr) output += bytes;
  if (pclose(pipe) != 0) throw Error("ip ", arguments, ": ", output);
}

}  // namespace

LaunchMethod ParseLaunchMethod(const std::string& text) {
  if (text == "auto") return LaunchMethod::kAuto;
  if (text == "local") return LaunchMethod::kLocal;
  if (text == "ssh") return LaunchMethod::kSsh;
  if (text == "namespaces") return LaunchMethod::kNamespaces;
  throw Error("--by=", text, ": expected auto, local, ssh or namespaces");
}

bool IsAddressOfThisMachine(const std::string& host) {
  const auto parsed = ParseHost(host);
  if (parsed && IsLoopback(*parsed)) return true;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    // An address of this machine is one that a socket can have.
    const FileDescriptor probe(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.get() >= 0 && bind(probe.get(), each->ai_addr, each->ai_addrlen) == 0) return true;
  }
  return false;
}

std::vector<NodeCommand> NodeCommands(const LaunchRequest& request, const std::string& lab,
                                      const IsThisMachine& is_this_machine) {
  if (request.arguments.empty()) {
    throw Error("launch: no command is given, expected one after --, as in -- train ",
                "--solver=solver.prototxt");
  }
  const bool is_elastic = !request.elastic.rendezvous.url.empty();
  std::vector<NodeCommand> commands;
  for (const Place& place : is_elastic ? ElasticPlaces(request) : TopologyPlaces(request)) {
    std::vector<std::string> command = {request.program};
    command.insert(command.end(), request.arguments.begin(), request.arguments.end());
    command.insert(command.end(), place.flags.begin(), place.flags.end());
    if (request.all_devices) command = WithAllDevices(command);
    LaunchMethod method = request.method;
    if (method == LaunchMethod::kAuto) {
      const bool is_here = place.host.empty() || is_this_machine(place.host);
      method = is_here ? LaunchMethod::kLocal : LaunchMethod::kSsh;
    }
    if (method == LaunchMethod::kSsh) {
      if (place.host.empty()) {
        throw is_elastic ? Error("launch --by=ssh: expected --hosts")
                         : Error(request.topology, ": node \"", place.name,
                                 "\" has no address, expected one for ssh");
      }
      command = OverSsh(place.host, request.folder, request.stop_seconds, command);
    } else if (method == LaunchMethod::kNamespaces) {
      command.insert(command.begin(), {"ip", "netns", "exec", NamespaceOf(lab, place.name)});
    }
    commands.push_back({place.name, std::move(command), method == LaunchMethod::kSsh});
  }
  return commands;
}

NamespaceLab::NamespaceLab(const std::string& topology, const std::string& lab) : lab_(lab) {
  if (geteuid() != 0) throw Error("launch --by=namespaces: expected root");
  try {
    Make(topology);
  } catch (const Error&) {
    Remove();
    throw;
  }
}

NamespaceLab::~NamespaceLab() { Remove(); }

void NamespaceLab::Make(const std::string& path) {
  const Topology topology = LoadTopology(path, TransportsForTopologies());
  const auto add = [this](const std::string& name) {
    RunIp("netns add " + name);
    names_.push_back(name);
  };
  const std::string hub = lab_ + "-hub";
  add(hub);
  RunIp(StrCat("-n ", hub, " link add br0 type bridge"));
  RunIp(StrCat("-n ", hub, " link set br0 up"));
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const TopologyAdapter& adapter = topology.nodes[i].adapters.front();
    const auto host = ParseHost(adapter.address);
    if (!adapter.address.empty() && (!host || host->kind != HostKind::kIpv4 || IsLoopback(*host))) {
      throw Error(path, ": node[", i, "].address: \"", adapter.address,
                  "\" given, expected an IPv4 address that is not loopback, for namespaces");
    }
    const std::string name = NamespaceOf(lab_, topology.nodes[i].name);
    const std::string mac = adapter.mac.empty() ? "" : " address " + adapter.mac;
    const bool has_name = !adapter.interface.empty() && !LooksLikeMac(adapter.interface);
    const std::string interface = has_name ? adapter.interface : "eth0";
    add(name);
    RunIp(StrCat("-n ", hub, " link add port", i, " type veth peer name ", Quoted(interface), mac,
                 " netns ", name));
    RunIp(StrCat("-n ", hub, " link set port", i, " master br0 up"));
    if (!adapter.address.empty()) {
      RunIp(StrCat("-n ", name, " address add ", adapter.address, "/24 dev ", Quoted(interface)));
    }
    RunIp(StrCat("-n ", name, " link set lo up"));
    RunIp(StrCat("-n ", name, " link set ", Quoted(interface), " up"));
  }
}

void NamespaceLab::Remove() {
  for (const std::string& name : names_) {
    try {
      RunIp("netns del " + name);
    } catch (const Error&) {  // is gone
    }
  }
  names_.clear();
}

}  // namespace millrace::inline control
