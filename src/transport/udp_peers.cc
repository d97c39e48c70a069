#include "transport/udp_peers.h"

#include <bit>

namespace millrace {

UdpPeers::UdpPeers(const std::map<NodeId, UdpAddress>& addresses) {
  by_hash_.assign(std::bit_ceil(2 * addresses.size()), kNone);
  for (const auto& [node, address] : addresses) {
    size_t place = address.Hash() & (by_hash_.size() - 1);
    while (by_hash_[place] != kNone) place = (place + 1) & (by_hash_.size() - 1);
    by_hash_[place] = addresses_.size();
    addresses_.push_back(address);
  }
}

size_t UdpPeers::Find(const UdpAddress& address) const {
  for (size_t place = address.Hash() & (by_hash_.size() - 1); by_hash_[place] != kNone;
       place = (place + 1) & (by_hash_.size() - 1)) {
    if (addresses_[by_hash_[place]] == address) return by_hash_[place];
  }
  return kNone;
}

}  // namespace millrace
