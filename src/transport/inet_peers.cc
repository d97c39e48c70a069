#include "transport/inet_peers.h"

#include <bit>

#include "base/error.h"

namespace millrace::inline transport {

InetPeers::InetPeers(const std::map<NodeId, InetAddress>& addresses) {
  for (const auto& [node, address] : addresses) addresses_.push_back(address);
  Index();
}

void InetPeers::Index() {
  by_hash_.assign(std::bit_ceil(2 * addresses_.size()), kNone);
  for (size_t index = 0; index < addresses_.size(); ++index) {
    if (!addresses_[index].is_known()) continue;
    size_t place = addresses_[index].Hash() & (by_hash_.size() - 1);
    while (by_hash_[place] != kNone) place = (place + 1) & (by_hash_.size() - 1);
    by_hash_[place] = index;
  }
}

void InetPeers::Set(size_t index, const InetAddress& address) {
  const size_t before = Find(address);
  if (before != kNone) addresses_[before] = {};
  addresses_[index] = address;
  Index();
}

size_t InetPeers::Find(const InetAddress& address) const {
  for (size_t place = address.Hash() & (by_hash_.size() - 1); by_hash_[place] != kNone;
       place = (place + 1) & (by_hash_.size() - 1)) {
    if (addresses_[by_hash_[place]] == address) return by_hash_[place];
  }
  return kNone;
}

std::map<NodeId, InetAddress> ResolveUdpPeers(const std::string& transport, NodeId self,
                                              const InetAddress& own,
                                              const std::map<NodeId, std::string>& peers,
                                              bool may_be_unknown) {
  std::map<NodeId, InetAddress> addresses;
  std::map<std::string, NodeId> seen = {{own.Text(), self}};
  for (const auto& [node, text] : peers) {
    const std::string field = StrCat("transport ", transport, ": peers: ", node);
    if (node == self || node == kAllNodes) {
      throw Error(field, "=", text, ": expected the id of another node");
    }
    if (text.empty() && may_be_unknown) {
      addresses.emplace(node, InetAddress());
      continue;
    }
    const InetAddress address = ResolveUdpAddress(field, text);
    if (address.is_v6() != own.is_v6()) {
      throw Error(field, "=", text, ": expected an address of the family of this node's, ",
                  own.Text());
    }
    if (address.port() == 0) throw Error(field, "=", text, ": expected a port from 1 to 65535");
    const auto [other, is_new] = seen.emplace(address.Text(), node);
    if (!is_new) {
      throw Error(field, "=", text, ": node ", other->second, " has this address already");
    }
    addresses.emplace(node, address);
  }
  if (addresses.empty()) throw Error("transport ", transport, ": peers: expected one at least");
  return addresses;
}

}  // namespace millrace::inline transport
