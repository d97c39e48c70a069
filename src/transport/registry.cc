#include "millrace/transport_registry.h"

#include <utility>

#include "base/error.h"
#include "base/module.h"
#include "base/registration.h"
#include "base/text/names.h"
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
  const std::lock_guard lock(mutex_);
  if (!descriptors_.emplace(name, std::move(descriptor)).second) {
    ReportSecondRegistration("transport", name);
  }
}

void TransportRegistry::Register(const std::string& name, Factory factory) {
  const std::lock_guard lock(mutex_);
  if (!factories_.emplace(name, std::move(factory)).second) {
    ReportSecondRegistration("transport", name);
  }
}

const TransportDescriptor* TransportRegistry::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = descriptors_.find(name);
  return found == descriptors_.end() ? nullptr : &found->second;
}

std::vector<const TransportDescriptor*> TransportRegistry::Descriptors() const {
  const std::lock_guard lock(mutex_);
  std::vector<const TransportDescriptor*> all;
  for (const auto& [name, descriptor] : descriptors_) all.push_back(&descriptor);
  return all;
}

std::vector<std::string> TransportRegistry::Names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, descriptor] : descriptors_) names.push_back(name);
  return names;
}

const TransportRegistry::Factory* TransportRegistry::FindFactory(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = factories_.find(name);
  return found == factories_.end() ? nullptr : &found->second;
}

std::string TransportRegistry::WhyNot(const std::string& name) const {
  if (FindFactory(name) != nullptr) return "";
  const std::string reason = LoadModule(name);
  return FindFactory(name) != nullptr ? "" : reason;
}

std::unique_ptr<Transport> TransportRegistry::Create(const TransportConfig& config) const {
  const TransportDescriptor* const descriptor = Find(config.transport);
  if (descriptor == nullptr) {
    throw Error("unknown transport ", config.transport, ": expected one of ", Joined(Names()));
  }
  const std::string reason = WhyNot(config.transport);
  if (!reason.empty()) throw Error("transport ", config.transport, ": in ", reason);
  for (const auto& [key, value] : config.options) {
    if (descriptor->Accepts(key)) continue;
    throw Error("transport ", config.transport, ": unknown option ", key, ": expected one of ",
                Joined(descriptor->options));
  }
  return (*FindFactory(config.transport))(config);
}

}  // namespace millrace
