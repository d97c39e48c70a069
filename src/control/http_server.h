// An HTTP/1.1 server by Boost.Beast, in a thread of its own, that stays small whatever its clients
// do: connections, times and sizes are bounded.
#ifndef MILLRACE_CONTROL_HTTP_SERVER_H_
#define MILLRACE_CONTROL_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "control/http_address.h"
#include "control/http_message.h"
#include "control/run_history.h"
#include "millrace/metrics.h"

namespace millrace::inline control {

struct HttpServerConfig {
  HttpAddress address = {};  // port 0: chosen by the system
  // PEM files of the certificate with its chain and of its private key; "": no TLS.
  std::string certificate = "", private_key = "";
  // For further ones, those that have been without a request for longest are closed; if none is,
  // the new ones. At most half of the process's file descriptors.
  size_t max_connections = 12'000;
  size_t max_event_streams = 64;  // further ones are answered with status 503
  size_t max_body_bytes = 1 << 20;
  double request_seconds = 10;  // from the first byte of a request to its last, and for a response
  double idle_seconds = 120;    // between two requests of a connection
  double progress_seconds = 1;  // between two events "progress"
  // Gets the counters as metrics, ten times a second; outlives the server. Null: none.
  MetricsRegistry* metrics = nullptr;
};

struct HttpCounters {
  size_t connections = 0;  // open now
  size_t replaced = 0;     // closed without a request, because there were too many
  size_t too_many = 0;     // refused, because there were too many and all had requests
  size_t malformed = 0;    // requests that are no HTTP, too large or too slow
};

// `handler` answers requests; `status` is called every 0.1 s and gives the run's status and its
// JSON for the events. Both are called by the server's thread, one at a time, until Stop.
class HttpServer {
 public:
  using StatusSource = std::function<std::pair<RunStatus, std::string>()>;

  // Throws Error in one line if the address cannot be had or a file is wrong.
  HttpServer(const HttpServerConfig& config, HttpHandler handler, StatusSource status);
  // As Stop.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  HttpAddress address() const;
  // "http://host:port", or "https://" with a certificate.
  std::string url() const;
  // Any thread.
  HttpCounters counters() const;
  // Sends the last events, for at most half a second, and closes all connections. Answers that come
  // later are dropped.
  void Stop();

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HTTP_SERVER_H_
