// Sends requests to control services and registries, by Boost.Beast. Each call has a connection of
// its own.
#ifndef MILLRACE_CONTROL_HTTP_CLIENT_H_
#define MILLRACE_CONTROL_HTTP_CLIENT_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "control/http_address.h"
#include "control/http_message.h"

namespace millrace::inline control {

// The error when nothing listens at the address, or the connection ends before the response.
class ServiceGone : public Error {
 public:
  using Error::Error;
};

struct HttpClientConfig {
  bool tls = false;
  // PEM file of the authorities that the server's certificate is checked by; "": the system's.
  std::string authorities = "";
  double seconds = 10;                      // until the response is complete
  std::string service = "control service";  // for errors
};

// Returns the response, whatever its status. Throws Error in one line that names the address, if
// there is none in time.
HttpResponse SendHttp(const HttpClientConfig& config, const HttpAddress& address,
                      const HttpRequest& request);

// Calls `on_event` for each server-sent event of the response, until it returns false or the server
// ends it. Returns the response if it is none with events. Throws Error as SendHttp; silence of
// `config.seconds` is one.
using OnHttpEvent = std::function<bool(std::string_view kind, std::string_view data)>;
HttpResponse ReadHttpEvents(const HttpClientConfig& config, const HttpAddress& address,
                            const HttpRequest& request, const OnHttpEvent& on_event);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HTTP_CLIENT_H_
