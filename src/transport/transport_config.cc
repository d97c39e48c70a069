#include <algorithm>

#include "base/error.h"
#include "base/text/parse.h"
#include "millrace/transport_registry.h"

namespace millrace {
namespace {

// Parses `text` as a number in [least, most].
template <typename Value>
Value Parse(const TransportConfig& config, const std::string& key, Value least, Value most,
            const char* kind) {
  const std::string& text = config.options.at(key);
  const auto value = ParseNumber<Value>(text);
  // This form of the comparison also rejects NaN.
  if (value && *value >= least && *value <= most) return *value;
  throw Error("transport ", config.transport, ": ", key, "=", text, ": expected ", kind, " from ",
              least, " to ", most);
}

}  // namespace

std::string TransportConfig::Text(const std::string& key) const {
  if (!Has(key)) throw Error("transport ", transport, ": option ", key, " is missing");
  return options.at(key);
}

std::string TransportConfig::Text(const std::string& key, const std::string& default_value) const {
  return Has(key) ? options.at(key) : default_value;
}

int64_t TransportConfig::Int(const std::string& key, int64_t default_value, int64_t least,
                             int64_t most) const {
  return Has(key) ? Parse<int64_t>(*this, key, least, most, "an integer") : default_value;
}

double TransportConfig::Number(const std::string& key, double default_value, double least,
                               double most) const {
  return Has(key) ? Parse<double>(*this, key, least, most, "a number") : default_value;
}

std::map<NodeId, std::string> TransportConfig::Peers(const char* form) const {
  const std::string text = Text(kPeersOption);
  const std::string field = StrCat("transport ", transport, ": peers: ");
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
    if (*node == this->node || *node == kAllNodes) {
      throw Error(field, part, ": expected the id of another node");
    }
    if (!peers.emplace(*node, part.substr(equals + 1)).second) {
      throw Error(field, "node ", *node, " is there twice");
    }
  }
  return peers;
}

}  // namespace millrace
