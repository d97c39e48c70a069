// Addresses of control services.
#ifndef MILLRACE_CONTROL_HTTP_ADDRESS_H_
#define MILLRACE_CONTROL_HTTP_ADDRESS_H_

#include <optional>
#include <string>

#include "transport/network_names.h"

namespace millrace::inline control {

struct HttpAddress : NetworkEndpoint {
  std::string text() const { return HostAndPort(host, port); }
  bool is_loopback() const { return IsLoopback(host); }
};

// Parses "host:port", "[IPv6 address]:port", or a port of 127.0.0.1. None for any other text.
inline std::optional<HttpAddress> ParseHttpAddress(const std::string& text) {
  const bool has_host = text.find(':') != std::string::npos;
  const auto endpoint = ParseHostAndPort(has_host ? text : "127.0.0.1:" + text);
  if (!endpoint) return {};
  return HttpAddress{*endpoint};
}

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HTTP_ADDRESS_H_
