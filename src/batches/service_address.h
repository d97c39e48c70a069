// Addresses of minibatch services:
//
//   batch://HOST:PORT/NAME[/LAYER][?key_file=PATH][&wait=SECONDS][&memory=off]
//
// NAME is the service's, LAYER one of its data layers, if it has several. `wait`: how long a worker
// waits for a service that is gone. `memory=off`: batches come over the connection also on one
// machine.
#ifndef MILLRACE_BATCHES_SERVICE_ADDRESS_H_
#define MILLRACE_BATCHES_SERVICE_ADDRESS_H_

#include <string>

namespace millrace::inline batches {

struct ServiceAddress {
  std::string text;  // as given
  std::string host_and_port, name, layer, key_file;
  bool is_loopback = false;
  double wait_seconds = 30;
  bool memory = true;
};

// Takes the text after "batch:". Throws Error that says what was expected.
ServiceAddress ParseServiceAddress(const std::string& text);

// `listen` itself. Throws Error if it is no address, or not a loopback address without a key.
std::string CheckedListenAddress(const std::string& listen, bool has_key);

// Throws Error unless `name` can be the name of a service.
void CheckServiceName(const std::string& name);

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_SERVICE_ADDRESS_H_
