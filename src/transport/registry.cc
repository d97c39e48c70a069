#include "millrace/transport_registry.h"

#include <utility>

#include "base/error.h"
#include "base/names.h"
#include "base/registration.h"
#include "transport/check_descriptor.h"

namespace millrace {

TransportRegistry& TransportRegistry::Get() {
  static TransportRegistry registry;
  return registry;
}

void TransportRegistry::Register(TransportDescriptor descriptor) {
  const std::string problem = ProblemOf(descriptor);
  if (!problem.empty()) return ReportBadRegistration(problem);
  const std::string name = descriptor.name;
  if (!descriptors_.emplace(name, std::move(descriptor)).second) {
    ReportSecondRegistration("transport", name);
  }
}

void TransportRegistry::Register(const std::string& name, Factory factory) {
  if (!factories_.emplace(name, std::move(factory)).second) {
    ReportSecondRegistration("transport", name);
  }
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
