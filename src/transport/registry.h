// The transports of this build, by name. A new one is a file in this folder that
// registers a factory:
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

// What an endpoint is made from. Options are text, as a topology file has them;
// every error names the transport and the option.
struct TransportConfig {
  std::string transport;  // its registered name
  NodeId node = 0;
  std::map<std::string, std::string> options;
  const Clock* clock = &DefaultClock();  // outlives the endpoint

  bool Has(const std::string& key) const { return options.count(key) != 0; }
  // These throw Error if the value is not of the kind, or out of [least, most].
  std::string Text(const std::string& key) const;  // must be there
  std::string Text(const std::string& key, const std::string& fallback) const;
  int64_t Int(const std::string& key, int64_t fallback, int64_t least, int64_t most) const;
  double Number(const std::string& key, double fallback, double least, double most) const;
  // Throws Error naming the first option that is none of `known`.
  void ExpectOnly(std::initializer_list<const char*> known) const;
};

class TransportRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Transport>(const TransportConfig&)>;

  static TransportRegistry& Get();

  void Register(const std::string& name, Factory factory);
  // Throws Error if there is no such transport (naming those there are), if an
  // option is wrong, or if the transport cannot be had on this machine.
  std::unique_ptr<Transport> Create(const TransportConfig& config) const;
  // Sorted.
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, Factory> factories_;
};

// Put one at namespace scope in the transport's file.
struct RegisterTransport {
  RegisterTransport(const std::string& name, TransportRegistry::Factory factory) {
    TransportRegistry::Get().Register(name, std::move(factory));
  }
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_REGISTRY_H_
