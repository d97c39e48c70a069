// The addresses of a UDP endpoint's peers. Not thread-safe.
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

  // All known addresses must differ.
  explicit InetPeers(const std::map<NodeId, InetAddress>& addresses);

  // A peer is identified by its index in [0, size()), in ascending order of node ids.
  size_t size() const { return addresses_.size(); }
  const InetAddress& operator[](size_t index) const { return addresses_[index]; }
  size_t Find(const InetAddress& address) const;  // kNone if the address belongs to no peer
  // Changes the address of a peer. Another one that had it has none any more.
  void Set(size_t index, const InetAddress& address);

 private:
  void Index();

  std::vector<InetAddress> addresses_;
  std::vector<size_t> by_hash_;  // open addressing; a power of two, at most half full
};

// Resolves option `peers` of `transport` for node `self` at address `own`. Throws Error with one
// line that names the peer if its id is not that of another node, its address family differs from
// that of `own`, its port is 0, or its address is already in use. Throws Error if `peers` is
// empty. With `may_be_unknown`, "" stands for a peer whose address is not known yet.
std::map<NodeId, InetAddress> ResolveUdpPeers(const std::string& transport, NodeId self,
                                              const InetAddress& own,
                                              const std::map<NodeId, std::string>& peers,
                                              bool may_be_unknown = false);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_INET_PEERS_H_
