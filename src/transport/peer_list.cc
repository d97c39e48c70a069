#include "transport/peer_list.h"

#include <algorithm>

#include "base/error.h"
#include "base/parse_number.h"

namespace millrace {

std::map<NodeId, std::string> ParsePeerList(const TransportConfig& config, const char* form) {
  const std::string text = config.Text("peers");
  const std::string field = StrCat("transport ", config.transport, ": peers: ");
  std::map<NodeId, std::string> peers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    const auto node = ParseNumber<NodeId>(part.substr(0, equals));
    if (equals == std::string::npos || !node) {
      throw Error(field, part, ": expected NODE=", form, ", node from 0 to 65534");
    }
    if (!peers.emplace(*node, part.substr(equals + 1)).second) {
      throw Error(field, "node ", *node, " is there twice");
    }
  }
  return peers;
}

}  // namespace millrace
