// Machines in miniature: two network namespaces joined by a veth pair. They have no
// names and go with the process, however it ends. Needs root (or CAP_NET_ADMIN and
// CAP_SYS_ADMIN) and the programs ip and, to lose packets, iptables.
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
  static std::string WhyNoLoss();  // the same for LosePackets

  // Throws Error if a step fails.
  explicit Network(int mtu);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Runs `body` on a thread of its own inside machine 0 or 1, and returns when it has
  // ended; sockets made there stay there. Passes on what it throws.
  void Inside(int machine, const std::function<void()>& body) const;
  // Runs a program there; throws Error with what it printed if it fails.
  std::string Run(int machine, const std::vector<std::string>& arguments) const;

  static std::string AddressOf(int machine) { return machine == 0 ? "10.99.0.1" : "10.99.0.2"; }

  // From now on machine drops that share of the UDP packets of `least_bytes` (with
  // headers of IP) or more that arrive from the other.
  void LosePackets(int machine, double share, int least_bytes) const;
  // How many that were.
  uint64_t PacketsLost(int machine) const;

 private:
  int namespaces_[2] = {-1, -1};  // descriptors that keep them
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_NETWORK_H_
