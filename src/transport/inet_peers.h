// The addresses of a UDP endpoint's peers. Immutable after construction.
#ifndef MILLRACE_TRANSPORT_INET_PEERS_H_
#define MILLRACE_TRANSPORT_INET_PEERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/transport.h"
#include "transport/inet_address.h"

namespace millrace::inline transport {

class InetPeers {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // All addresses must differ.
  explicit InetPeers(const std::map<NodeId, InetAddress>& addresses);

  // A peer is identified by its index in [0, size()), in ascending order of node ids.
  size_t size() const { return addresses_.size(); }
  const InetAddress& operator[](size_t index) const { return addresses_[index]; }
  size_t Find(const InetAddress& address) const;  // kNone if the address belongs to no peer

 private:
  std::vector<InetAddress> addresses_;
  std::vector<size_t> by_hash_;  // open addressing; a power of two, at most half full
};

// Resolves option `peers` of `transport` for node `self` at address `own`. Throws Error with one
// line that names the peer if its id is not that of another node, its address family differs from
// that of `own`, its port is 0, or its address is already in use. Throws Error if `peers` is
// empty.
std::map<NodeId, InetAddress> ResolveUdpPeers(const std::string& transport, NodeId self,
                                              const InetAddress& own,
                                              const std::map<NodeId, std::string>& peers);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_INET_PEERS_H_
