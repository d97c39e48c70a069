#include "transport/registry.h"

#include <glog/logging.h>

#include <utility>

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

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
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

TransportRegistry& TransportRegistry::Get() {
  static TransportRegistry registry;
  return registry;
}

void TransportRegistry::Register(TransportDescriptor descriptor) {
  const std::string name = descriptor.name;
  CHECK(descriptors_.emplace(name, std::move(descriptor)).second)
      << "two transports named " << name;
}

void TransportRegistry::Register(const std::string& name, Factory factory) {
  CHECK(factories_.emplace(name, std::move(factory)).second) << "two transports named " << name;
}

const TransportDescriptor* TransportRegistry::Find(const std::string& name) const {
  const auto found = descriptors_.find(name);
  return found == descriptors_.end() ? nullptr : &found->second;
}

std::vector<const TransportDescriptor*> TransportRegistry::Descriptors() const {
  std::vector<const TransportDescriptor*> all;
  for (const auto& [name, descriptor] : descriptors_) all.push_back(&descriptor);
  return all;
}

std::vector<std::string> TransportRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, descriptor] : descriptors_) names.push_back(name);
  return names;
}

std::unique_ptr<Transport> TransportRegistry::Create(const TransportConfig& config) const {
  const TransportDescriptor* const descriptor = Find(config.transport);
  if (descriptor == nullptr) {
    throw Error("unknown transport ", config.transport, ": expected one of ", Joined(Names()));
  }
  const auto factory = factories_.find(config.transport);
  if (factory == factories_.end()) {
    throw Error("transport ", config.transport, ": not in this build: expected one with ",
                descriptor->build_hint);
  }
  for (const auto& [key, value] : config.options) {
    if (descriptor->Accepts(key)) continue;
    throw Error("transport ", config.transport, ": unknown option ", key, ": expected one of ",
                Joined(descriptor->options));
  }
  return factory->second(config);
}

}  // namespace millrace
