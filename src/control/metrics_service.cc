#include "control/metrics_service.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "control/cluster_addresses.h"
#include "control/run_metrics.h"
#include "control/run_report.h"

namespace millrace::inline control {

MetricsService::MetricsService(const MetricsServiceOptions& options)
    : options_(options),
      listens_at_(ExpectHttpAddress(options.address)),
      access_(ControlKeyOf(options.key_file),
              AccessCheck::AddressOf(listens_at_, !options.certificate.empty(),
                                     !options.key_file.empty())),
      server_(
          {.address = listens_at_,
           .certificate = options.certificate,
           .private_key = options.private_key,
           .metrics = options.metrics},
          [this](const HttpRequest& request, const HttpDone& done) { done(Answer(request)); },
          [] { return std::pair(RunStatus(), std::string("{}")); }) {}

MetricsService::~MetricsService() { server_.Stop(); }

std::string MetricsService::url() const { return server_.url(); }

HttpResponse MetricsService::Answer(const HttpRequest& request) {
  const std::string_view path = request.path();
  if (path != "/metrics" && path != "/v1/metrics" && path != "/v1/status") {
    return ProblemResponse(404, "there is no such path, expected /metrics or /v1/status");
  }
  if (request.method != "GET") {
    HttpResponse response = ProblemResponse(405, "expected the method GET");
    response.headers.emplace_back("Allow", "GET");
    return response;
  }
  const auto now = static_cast<int64_t>(UnixSeconds());
  if (const auto refusal = access_.Check(request, Access::kRead, now)) {
    return RefusalResponse(*refusal);
  }
  if (path == "/v1/status") return {.body = options_.status() + "\n"};
  const MetricsReading reading = ReadProcessMetrics(options_.metrics);
  if (path == "/metrics") return ScrapeResponse(request, reading);
  return {.body = JsonOf(MetricsMessage(reading)) + "\n"};
}

}  // namespace millrace::inline control
