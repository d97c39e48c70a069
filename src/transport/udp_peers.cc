#include "transport/udp_peers.h"

#include <bit>

namespace millrace {

UdpPeers::UdpPeers(const std::map<NodeId, UdpAddress>& addresses, uint32_t window,
                   int64_t silence_ns) {
  by_hash_.assign(std::bit_ceil(2 * addresses.size()), kNone);
  for (const auto& [node, address] : addresses) {
    by_node_.resize(node + 1, kNone);
    by_node_[node] = peers_.size();
    size_t place = address.Hash() & (by_hash_.size() - 1);
    while (by_hash_[place] != kNone) place = (place + 1) & (by_hash_.size() - 1);
    by_hash_[place] = peers_.size();
    peers_.push_back(
        {node, address, UdpSendWindow(window, silence_ns), UdpReceiveWindow(window), false});
  }
}

size_t UdpPeers::Find(const UdpAddress& address) const {
  for (size_t place = address.Hash() & (by_hash_.size() - 1); by_hash_[place] != kNone;
       place = (place + 1) & (by_hash_.size() - 1)) {
    if (peers_[by_hash_[place]].address == address) return by_hash_[place];
  }
  return kNone;
}

}  // namespace millrace
