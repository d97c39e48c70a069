// The transports of this program, by name. Each registers itself, with one line at namespace scope:
//
//   const millrace::RegisterTransport foo(FooDescriptor(), MakeFoo);
//
// Inside of Millrace, a backend that some builds leave out registers in two files, of which the
// second is left out:
//
//   const RegisterTransport foo(FooDescriptor());               // descriptor.cc
//   const RegisterBackend foo("foo", MakeFoo);                  // transport.cc
#ifndef MILLRACE_TRANSPORT_REGISTRY_H_
#define MILLRACE_TRANSPORT_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "millrace/export.h"
#include "millrace/transport.h"
#include "millrace/transport_descriptor.h"

namespace millrace {

// Settings of an endpoint. Option values are text, as in a topology file. Every error names the
// transport and the option.
struct MILLRACE_API TransportConfig {
  std::string transport;  // registered name
  NodeId node = 0;
  std::map<std::string, std::string> options;
  const Clock* clock = &DefaultClock();  // outlives the endpoint

  bool Has(const std::string& key) const { return options.count(key) != 0; }
  // The getters throw Error if the value has the wrong type or is outside [least, most].
  std::string Text(const std::string& key) const;  // throws Error if missing
  std::string Text(const std::string& key, const std::string& default_value) const;
  int64_t Int(const std::string& key, int64_t default_value, int64_t least, int64_t most) const;
  double Number(const std::string& key, double default_value, double least, double most) const;
  // Option `peers`, "1=10.0.0.2:7777,2=host:7777": the address of each peer, by node id. The
  // addresses are not checked. `form` is the expected form of an address for errors, such as
  // "HOST:PORT". At least one. Throws Error if the option is missing or malformed, or a node is
  // there twice or is this node.
  std::map<NodeId, std::string> Peers(const char* form) const;
};

// Thread-safe.
class MILLRACE_API TransportRegistry {
 public:
  // Makes the endpoint of config.node. Throws Error with one line that names the option. All
  // options are ones that the descriptor lists; their values are unchecked.
  using Factory = std::function<std::unique_ptr<Transport>(const TransportConfig&)>;

  static TransportRegistry& Get();

  // Keep the first transport of a name. A second one, or a descriptor that is incomplete, is an
  // error when plugins are loaded and when a session or cluster member starts.
  void Register(TransportDescriptor descriptor);
  void Register(const std::string& name, Factory factory);

  // Null if there is no transport of that name. Valid for the program's lifetime.
  const TransportDescriptor* Find(const std::string& name) const;
  // In the order of the names.
  std::vector<const TransportDescriptor*> Descriptors() const;
  // All names, sorted.
  std::vector<std::string> Names() const;
  // Why there is no code for a transport: "module verbs, which is not installed (...)"; "" if there
  // is. Loads the module of its name.
  std::string WhyNot(const std::string& name) const;

  // Throws Error with one line if the transport is unknown (lists the known ones), its module
  // cannot be loaded, an option is unknown or wrong, or this machine does not support it.
  std::unique_ptr<Transport> Create(const TransportConfig& config) const;

 private:
  // Null if there is none.
  const Factory* FindFactory(const std::string& name) const;

  mutable std::mutex mutex_;  // of the maps; entries stay where they are
  std::map<std::string, TransportDescriptor> descriptors_;
  std::map<std::string, Factory> factories_;
};

// Registers a transport; define one at namespace scope.
struct RegisterTransport {
  explicit RegisterTransport(TransportDescriptor descriptor) {
    TransportRegistry::Get().Register(std::move(descriptor));
  }
  RegisterTransport(TransportDescriptor descriptor, TransportRegistry::Factory factory) {
    TransportRegistry::Get().Register(descriptor.name, std::move(factory));
    TransportRegistry::Get().Register(std::move(descriptor));
  }
};

struct RegisterBackend {
  RegisterBackend(const std::string& name, TransportRegistry::Factory factory) {
    TransportRegistry::Get().Register(name, std::move(factory));
  }
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_REGISTRY_H_
