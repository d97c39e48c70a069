// The transports of this build, by name. A source file of each transport registers its factory:
//
//   std::unique_ptr<Transport> MakeFoo(const TransportConfig& config);
//   const RegisterTransport foo("foo", MakeFoo);
#ifndef MILLRACE_TRANSPORT_REGISTRY_H_
#define MILLRACE_TRANSPORT_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace millrace {

// Settings of an endpoint. Option values are text, as in a topology file. Every error names the
// transport and the option.
struct TransportConfig {
  std::string transport;  // registered name
  NodeId node = 0;
  std::map<std::string, std::string> options;
  const Clock* clock = &DefaultClock();  // outlives the endpoint

  bool Has(const std::string& key) const { return options.count(key) != 0; }
  // The getters throw Error if the value has the wrong type or is outside [least, most].
  std::string Text(const std::string& key) const;  // throws Error if missing
  std::string Text(const std::string& key, const std::string& fallback) const;
  int64_t Int(const std::string& key, int64_t fallback, int64_t least, int64_t most) const;
  double Number(const std::string& key, double fallback, double least, double most) const;
  // Throws Error that names the first option not in `known`.
  void ExpectOnly(std::initializer_list<const char*> known) const;
};

class TransportRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Transport>(const TransportConfig&)>;

  static TransportRegistry& Get();

  void Register(const std::string& name, Factory factory);
  // Throws Error if the transport is unknown (lists the known ones), an option is wrong, or this
  // machine does not support the transport.
  std::unique_ptr<Transport> Create(const TransportConfig& config) const;
  // Sorted.
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, Factory> factories_;
};

// Registers a factory; define one at namespace scope in the transport's source file.
struct RegisterTransport {
  RegisterTransport(const std::string& name, TransportRegistry::Factory factory) {
    TransportRegistry::Get().Register(name, std::move(factory));
  }
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_REGISTRY_H_
