// The peers of a UDP endpoint: their addresses and the windows of frames to and
// from each. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_PEERS_H_
#define MILLRACE_TRANSPORT_UDP_PEERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "transport/transport.h"
#include "transport/udp_address.h"
#include "transport/udp_window.h"

namespace millrace {

struct UdpPeer {
  NodeId node;
  UdpAddress address;
  UdpSendWindow send;
  UdpReceiveWindow receive;
  bool credit_wanted = false;  // is in the endpoint's list of those to be sent
};

class UdpPeers {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // Addresses differ. Both windows of each peer are of `window` frames.
  UdpPeers(const std::map<NodeId, UdpAddress>& addresses, uint32_t window, int64_t silence_ns);

  // Peers are known by their index, [0, size()), in the order of their ids.
  size_t size() const { return peers_.size(); }
  UdpPeer& operator[](size_t index) { return peers_[index]; }
  size_t IndexOf(NodeId node) const { return by_node_[node]; }  // of a peer
  size_t Find(const UdpAddress& address) const;                 // kNone if it is nobody's

 private:
  std::vector<UdpPeer> peers_;
  std::vector<size_t> by_node_;
  std::vector<size_t> by_hash_;  // open addressing, a power of two, half empty at least
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_PEERS_H_
