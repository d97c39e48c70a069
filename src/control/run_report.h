// The state of a run as messages of control.proto and as metrics.
#ifndef MILLRACE_CONTROL_RUN_REPORT_H_
#define MILLRACE_CONTROL_RUN_REPORT_H_

#include <optional>
#include <string>

#include "control/http_message.h"
#include "millrace/metrics.h"
#include "millrace/run.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// What does not change during a run. Node and cluster: until the run's status has them.
struct RunIdentity {
  std::string node = "", cluster = "", solver = "";
};
// `identity` with the node and cluster that the run has.
RunIdentity IdentityOf(RunIdentity identity, const RunStatus& status);

control_api::Status StatusMessage(const RunIdentity& identity, const RunStatus& status);

control_api::Test TestMessage(const RunTest& test);

// Seconds to the last iteration at the recent rate; none if that is not known.
std::optional<double> RemainingSeconds(const RunStatus& status);

// `unix_seconds`: now.
control_api::TrainerStatus TrainerStatusMessage(const RunStatus& status, double unix_seconds);

control_api::Metrics MetricsMessage(const MetricsReading& reading);

// What a scraper gets: OpenMetrics if it accepts that, else Prometheus' text format.
HttpResponse ScrapeResponse(const HttpRequest& request, const MetricsReading& reading);

// `message` in protobuf's JSON form, with all fields that are set and the names of the file.
std::string JsonOf(const google::protobuf::Message& message);
// Reads that; fields that the message does not have are ignored. Throws Error with `what` it is.
void ReadJson(const std::string& json, const std::string& what, google::protobuf::Message* message);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_RUN_REPORT_H_
