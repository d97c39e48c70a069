#include "transport/registry.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/parse_number.h"

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

std::string TransportConfig::Text(const std::string& key, const std::string& fallback) const {
  return Has(key) ? options.at(key) : fallback;
}

int64_t TransportConfig::Int(const std::string& key, int64_t fallback, int64_t least,
                             int64_t most) const {
  return Has(key) ? Parse<int64_t>(*this, key, least, most, "an integer") : fallback;
}

double TransportConfig::Number(const std::string& key, double fallback, double least,
                               double most) const {
  return Has(key) ? Parse<double>(*this, key, least, most, "a number") : fallback;
}

void TransportConfig::ExpectOnly(std::initializer_list<const char*> known) const {
  for (const auto& [key, value] : options) {
    const bool found =
        std::any_of(known.begin(), known.end(), [&](const char* name) { return key == name; });
    if (found) continue;
    std::string names;
    for (const char* name : known) names += StrCat(names.empty() ? "" : ", ", name);
    throw Error("transport ", transport, ": unknown option ", key, ": expected one of ", names);
  }
}

TransportRegistry& TransportRegistry::Get() {
  static TransportRegistry registry;
  return registry;
}

void TransportRegistry::Register(const std::string& name, Factory factory) {
  CHECK(factories_.emplace(name, std::move(factory)).second) << "two transports named " << name;
}

std::unique_ptr<Transport> TransportRegistry::Create(const TransportConfig& config) const {
  const auto found = factories_.find(config.transport);
  if (found != factories_.end()) return found->second(config);
  std::string names;
  for (const std::string& name : Names()) names += StrCat(names.empty() ? "" : ", ", name);
  throw Error("unknown transport ", config.transport, ": expected one of ", names);
}

std::vector<std::string> TransportRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

}  // namespace millrace
