// Machines in miniature: two network namespaces joined by a veth pair, or more of them
// at the ports of a bridge. They have no names and go with the process, however it ends. Needs root
// (or CAP_NET_ADMIN and CAP_SYS_ADMIN) and the programs ip and, to lose packets, iptables.
#ifndef MILLRACE_TEST_NETNS_NETWORK_H_
#define MILLRACE_TEST_NETNS_NETWORK_H_

#include <functional>
#include <string>
#include <vector>

namespace millrace::test {

class Network {
 public:
  // Why there can be none here (no privilege, no ip); "" if there can.
  static std::string WhyNot();
  static std::string WhyNoLoss();    // the same for LosePackets
  static std::string WhyNoBridge();  // the same for more than two machines

  // The interface of machine i is "mr" and i. Throws Error if a step fails.
  explicit Network(int mtu, int machines = 2);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int machines() const { return machines_; }
  // The place of the bridge, as if it were a machine; machine i is at its "port" and i.
  // There is none between two machines.
  int bridge() const { return machines_; }

  // Runs `body` on a thread of its own inside a machine, and returns when it has
  // ended; sockets made there stay there. Passes on what it throws.
  void Inside(int machine, const std::function<void()>& body) const;
  // Runs a program there; throws Error with what it printed if it fails.
  std::string Run(int machine, const std::vector<std::string>& arguments) const;

  static std::string DeviceOf(int machine) { return "mr" + std::to_string(machine); }
  static std::string AddressOf(int machine) { return "10.99.0." + std::to_string(machine + 1); }
  static std::string MacOf(int machine) { return "02:00:00:99:00:0" + std::to_string(machine + 1); }

  // From now on machine drops that share of the UDP packets of `least_bytes` (with
  // headers of IP) or more that arrive from the other.
  void LosePackets(int machine, double share, int least_bytes) const;
  // How many that were.
  uint64_t PacketsLost(int machine) const;

  // Bytes that the machine's interface has sent, Ethernet headers included.
  uint64_t BytesSent(int machine) const;
  // What the machine's kernel counts in /proc/net/snmp, such as ("Udp", "InCsumErrors").
  uint64_t KernelCount(int machine, const std::string& protocol, const std::string& name) const;

 private:
  // This process's name for a namespace, for `ip`, which runs in another.
  std::string PathOf(int space) const;
  void Join();          // two machines
  void JoinByBridge();  // any number

  const int machines_;
  std::vector<int> namespaces_;  // descriptors that keep them; behind the machines': the bridge's
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_NETWORK_H_
