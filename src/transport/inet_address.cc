#include "transport/inet_address.h"

#include <netdb.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/text/parse.h"

namespace millrace::inline transport {
namespace {

struct AddressParts {
  std::string host, port;
};

// Both parts are empty if `text` has the wrong format.
AddressParts SplitAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (!ParseNumber<uint16_t>(port)) return {};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string::npos) {
    return {};  // IPv6 without brackets: the start of the port is ambiguous
  }
  return {host, port};
}

// Sets `address` to the first one that the system finds. Returns the status of getaddrinfo.
int LookUp(const AddressParts& parts, int flags, InetAddress* address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (status != 0) return status;
  std::memcpy(&address->any, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return 0;
}

}  // namespace

std::string InetAddress::Text() const {
  char host[NI_MAXHOST];
  if (getnameinfo(&any, length(), host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return is_v6() ? StrCat("[", host, "]:", port()) : StrCat(host, ":", port());
}

bool InetAddress::operator==(const InetAddress& other) const {
  if (any.sa_family != other.any.sa_family || port() != other.port()) return false;
  if (!is_v6()) return v4.sin_addr.s_addr == other.v4.sin_addr.s_addr;
  return std::memcmp(&v6.sin6_addr, &other.v6.sin6_addr, sizeof(v6.sin6_addr)) == 0 &&
         v6.sin6_scope_id == other.v6.sin6_scope_id;
}

uint64_t InetAddress::Hash() const {
  uint64_t words[2] = {v4.sin_addr.s_addr, 0};
  if (is_v6()) std::memcpy(words, &v6.sin6_addr, sizeof(words));
  // The odd multiplier spreads adjacent addresses over the upper bits.
  const uint64_t mixed = (words[0] ^ words[1] * 31 ^ port()) * 0x9e3779b97f4a7c15;
  return mixed ^ mixed >> 32;
}

std::optional<InetAddress> ParseInetAddress(const std::string& text) {
  const AddressParts parts = SplitAddress(text);
  InetAddress address;
  if (parts.host.empty() || LookUp(parts, AI_NUMERICHOST, &address) != 0) return {};
  return address;
}

InetAddress ResolveUdpAddress(const std::string& field, const std::string& text) {
  const AddressParts parts = SplitAddress(text);
  if (parts.host.empty()) {
    throw Error(field, "=", text, ": expected HOST:PORT or [IPV6]:PORT, the port from 0 to 65535");
  }
  InetAddress address;
  const int status = LookUp(parts, 0, &address);
  if (status != 0) {
    throw Error(field, "=", text, ": ", parts.host,
                " is not an address and no host of that name is known: ", gai_strerror(status));
  }
  return address;
}

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
