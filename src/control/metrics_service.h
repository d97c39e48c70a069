// The metrics and the status of a program that is no run, by HTTP (docs/serve_data.md).
#ifndef MILLRACE_CONTROL_METRICS_SERVICE_H_
#define MILLRACE_CONTROL_METRICS_SERVICE_H_

#include <functional>
#include <string>

#include "control/access.h"
#include "control/http_server.h"
#include "millrace/metrics.h"

namespace millrace::inline control {

struct MetricsServiceOptions {
  // "host:port", "[IPv6 address]:port" or "port" (of 127.0.0.1); port 0: chosen by the system.
  std::string address = "127.0.0.1:0";
  std::string key_file = "";                       // of the cluster; "": none
  std::string certificate = "", private_key = "";  // PEM files; "": no TLS
  MetricsRegistry* metrics = nullptr;              // outlives the service
  std::function<std::string()> status = {};        // JSON; called by the service's thread
};

// Answers GET /metrics, /v1/metrics and /v1/status. The rules for reading are those of a control
// service (control/access.h).
class MetricsService {
 public:
  // Throws Error in one line.
  explicit MetricsService(const MetricsServiceOptions& options);
  ~MetricsService();
  MetricsService(const MetricsService&) = delete;
  MetricsService& operator=(const MetricsService&) = delete;

  std::string url() const;

 private:
  HttpResponse Answer(const HttpRequest& request);

  const MetricsServiceOptions options_;
  const HttpAddress listens_at_;
  AccessCheck access_;
  HttpServer server_;  // the last: it uses the others
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_METRICS_SERVICE_H_
