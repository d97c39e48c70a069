#include "test/netns/network.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace millrace::test {
namespace {

constexpr char kOwnNamespace[] = "/proc/thread-self/ns/net";

void OnAThread(const std::function<void()>& body) {
  std::exception_ptr error;
  std::thread thread([&] {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  });
  thread.join();
  if (error) std::rethrow_exception(error);
}

int MakeNamespace() {
  int fd = -1;
  OnAThread([&] {
    if (unshare(CLONE_NEWNET) != 0) throw Error("no network namespaces: ", ErrnoText(errno));
    fd = open(kOwnNamespace, O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw Error(kOwnNamespace, ": ", ErrnoText(errno));
  });
  return fd;
}

// Runs a program in the namespace of this thread and returns its output.
std::string RunHere(const std::vector<std::string>& arguments) {
  std::string line, output;
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    line += argument + " ";
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("pipe: ", ErrnoText(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char buffer[4096];
  for (ssize_t bytes; error == 0 && (bytes = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    output.append(buffer, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  if (error != 0) throw Error(line, "does not run: ", ErrnoText(error));
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) throw Error(line, "failed: ", output);
  return output;
}

std::string WhyNotRun(const std::vector<std::string>& arguments) {
  try {
    const int fd = MakeNamespace();
    close(fd);
    RunHere(arguments);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string Network::WhyNot() { return WhyNotRun({"ip", "-V"}); }

std::string Network::WhyNoLoss() { return WhyNotRun({"iptables", "--version"}); }

std::string Network::WhyNoBridge() {
  std::string reason;
  OnAThread([&] {
    if (unshare(CLONE_NEWNET) == 0)
      reason = WhyNotRun({"ip", "link", "add", "hub0", "type", "bridge"});
    else
      reason = StrCat("no network namespaces: ", ErrnoText(errno));
  });
  return reason;
}

Network::Network(int mtu, int machines) : machines_(machines) {
  for (int machine = 0; machine < machines; ++machine) namespaces_.push_back(MakeNamespace());
  machines == 2 ? Join() : JoinByBridge();
  for (int machine = 0; machine < machines; ++machine) {
    const std::string device = DeviceOf(machine);
    Run(machine, {"ip", "link", "set", "lo", "up"});
    Run(machine, {"ip", "address", "add", AddressOf(machine) + "/24", "dev", device});
    Run(machine, {"ip", "link", "set", device, "address", MacOf(machine)});
    Run(machine, {"ip", "link", "set", device, "mtu", std::to_string(mtu), "up"});
    if (machines == 2) continue;
    const std::string port = StrCat("port", machine);
    Run(machines, {"ip", "link", "set", port, "mtu", std::to_string(mtu), "master", "hub0", "up"});
  }
}

std::string Network::PathOf(int space) const {
  return StrCat("/proc/", getpid(), "/fd/", namespaces_[space]);
}

void Network::Join() {
  Run(0, {"ip", "link", "add", DeviceOf(0), "type", "veth", "peer", "name", DeviceOf(1), "netns",
          PathOf(1)});
}

void Network::JoinByBridge() {
  const int bridge = static_cast<int>(namespaces_.size());
  namespaces_.push_back(MakeNamespace());
  Run(bridge, {"ip", "link", "add", "hub0", "type", "bridge"});
  Run(bridge, {"ip", "link", "set", "hub0", "up"});
  for (int machine = 0; machine < bridge; ++machine) {
    Run(bridge, {"ip", "link", "add", StrCat("port", machine), "type", "veth", "peer", "name",
                 DeviceOf(machine), "netns", PathOf(machine)});
  }
}

Network::~Network() {
  for (int each : namespaces_) close(each);
}

void Network::Inside(int machine, const std::function<void()>& body) const {
  OnAThread([&] {
    if (setns(namespaces_[machine], CLONE_NEWNET) != 0) {
      throw Error("cannot enter a network namespace: ", ErrnoText(errno));
    }
    body();
  });
}

std::string Network::Run(int machine, const std::vector<std::string>& arguments) const {
  std::string output;
  Inside(machine, [&] { output = RunHere(arguments); });
  return output;
}

void Network::LosePackets(int machine, double share, int min_bytes) const {
  Run(machine, {"iptables", "-A", "INPUT", "-i", DeviceOf(machine), "-p", "udp", "-m", "length",
                "--length", StrCat(min_bytes, ":65535"), "-m", "statistic", "--mode", "random",
                "--probability", std::to_string(share), "-j", "DROP"});
}

uint64_t Network::PacketsLost(int machine) const {
  std::istringstream lines(Run(machine, {"iptables", "-L", "INPUT", "-v", "-x", "-n"}));
  uint64_t packets = 0, bytes = 0;
  std::string line, target;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    if (fields >> packets >> bytes >> target && target == "DROP") return packets;
  }
  throw Error("iptables lists no rule that drops");
}

uint64_t Network::BytesSent(int machine) const {
  uint64_t bytes = 0;
  Inside(machine, [&] {
    std::ifstream file("/proc/thread-self/net/dev");
    // "name: ", then 8 receive fields; the first transmit field is the number of bytes.
    for (std::string word; file >> word;) {
      if (word != DeviceOf(machine) + ":") continue;
      for (int field = 0; field <= 8; ++field) file >> bytes;
      return;
    }
    throw Error("/proc/net/dev does not list ", DeviceOf(machine));
  });
  return bytes;
}

uint64_t Network::KernelCount(int machine, const std::string& protocol,
                              const std::string& name) const {
  uint64_t count = 0;
  Inside(machine, [&] {
    std::ifstream file("/proc/thread-self/net/snmp");
    // Each protocol has a line of names and a line of numbers.
    for (std::string names, numbers; std::getline(file, names) && std::getline(file, numbers);) {
      std::istringstream each_name(names), each_number(numbers);
      std::string head, said, number;
      each_name >> head;
      each_number >> number;
      while (head == protocol + ":" && each_name >> said && each_number >> number) {
        if (said != name) continue;
        count = std::stoull(number);
        return;
      }
    }
    throw Error("/proc/net/snmp does not list ", protocol, " ", name);
  });
  return count;
}

}  // namespace millrace::test
