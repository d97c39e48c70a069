// Emulated machines: two network namespaces joined by a veth pair, or more of them at the ports of
// a bridge. They have no names and end with the process, however it ends. Needs root (or
// CAP_NET_ADMIN and CAP_SYS_ADMIN), the program ip, and iptables to lose packets.
#ifndef MILLRACE_TEST_NETNS_NETWORK_H_
#define MILLRACE_TEST_NETNS_NETWORK_H_

#include <functional>
#include <string>
#include <vector>

namespace millrace::test {

class Network {
 public:
  // Why no network can be made here (no privilege, no ip); "" if one can.
  static std::string WhyNot();
  static std::string WhyNoLoss();    // the same for LosePackets
  static std::string WhyNoBridge();  // the same for more than two machines

  // The interface of machine i is named "mr" and i. Throws Error if a step fails.
  explicit Network(int mtu, int machines = 2);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int machines() const { return machines_; }
  // Pseudo machine index of the bridge, for Inside and Run; machine i is at its "port" and i. Two
  // machines have no bridge.
  int bridge() const { return machines_; }

  // Runs `body` on a new thread inside a machine and waits for it. Sockets created there stay in
  // that machine. Rethrows what `body` throws.
  void Inside(int machine, const std::function<void()>& body) const;
  // Runs a program on the machine and returns its output; on failure throws Error with that output.
  std::string Run(int machine, const std::vector<std::string>& arguments) const;

  static std::string DeviceOf(int machine) { return "mr" + std::to_string(machine); }
  static std::string AddressOf(int machine) { return "10.99.0." + std::to_string(machine + 1); }
  static std::string MacOf(int machine) { return "02:00:00:99:00:0" + std::to_string(machine + 1); }

  // Makes the machine drop this share of the UDP packets of at least `min_bytes` (IP header
  // included) that arrive from the other machine.
  void LosePackets(int machine, double share, int min_bytes) const;
  // Number of packets dropped so far.
  uint64_t PacketsLost(int machine) const;

  // Bytes sent by the machine's interface, Ethernet headers included.
  uint64_t BytesSent(int machine) const;
  // A counter of the machine's kernel in /proc/net/snmp, such as ("Udp", "InCsumErrors").
  uint64_t KernelCount(int machine, const std::string& protocol, const std::string& name) const;

 private:
  // Path of a namespace in /proc of this process, for `ip`, which runs in another process.
  std::string PathOf(int space) const;
  void Join();          // two machines
  void JoinByBridge();  // any number of machines

  const int machines_;
  std::vector<int> namespaces_;  // descriptors that keep the namespaces alive; the bridge's is last
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_NETWORK_H_
