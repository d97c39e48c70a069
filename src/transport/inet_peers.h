// The addresses of a UDP endpoint's peers. Does not change once it is made.
#ifndef MILLRACE_TRANSPORT_INET_PEERS_H_
#define MILLRACE_TRANSPORT_INET_PEERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transport/inet_address.h"
#include "transport/transport.h"

namespace millrace {

class InetPeers {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // Addresses differ.
  explicit InetPeers(const std::map<NodeId, InetAddress>& addresses);

  // Peers are known by their index, [0, size()), in the order of their ids.
  size_t size() const { return addresses_.size(); }
  const InetAddress& operator[](size_t index) const { return addresses_[index]; }
  size_t Find(const InetAddress& address) const;  // kNone if it is nobody's

 private:
  std::vector<InetAddress> addresses_;
  std::vector<size_t> by_hash_;  // open addressing, a power of two, half empty at least
};

// What the option `peers` of that transport names, for node `self` at `own`. Throws Error,
// one line with the peer, for one that is this node, is of another family of addresses, has
// no port, or has an address that is somebody's already; and without any.
std::map<NodeId, InetAddress> ResolveUdpPeers(const std::string& transport, NodeId self,
                                              const InetAddress& own,
                                              const std::map<NodeId, std::string>& peers);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_INET_PEERS_H_
