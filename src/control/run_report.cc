#include "control/run_report.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "metrics/openmetrics.h"
#include "millrace/version.h"

namespace millrace::inline control {
namespace {

int32_t Narrow(int64_t value) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp<int64_t>(value, -1, kMax));
}

std::string Rfc3339(double unix_seconds) {
  const auto time = static_cast<time_t>(unix_seconds);
  tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void AddMetric(const std::string& name, double value, control_api::TrainerStatus* status) {
  auto* metric = status->add_metrics();
  metric->set_name(name);
  metric->set_value(StrCat(value));
}

}  // namespace

std::optional<double> RemainingSeconds(const RunStatus& status) {
  const std::optional<double> rate = status.iterations_per_second;
  if (!rate || !(*rate > 0) || status.max_iteration <= 0) return {};
  return static_cast<double>(std::max<int64_t>(status.max_iteration - status.iteration, 0)) / *rate;
}

control_api::Test TestMessage(const RunTest& test) {
  control_api::Test message;
  message.set_iteration(Narrow(test.iteration));
  message.set_net(test.net);
  for (const TestOutput& output : test.outputs) {
    (*message.mutable_output())[output.name] = output.mean;
  }
  return message;
}

RunIdentity IdentityOf(RunIdentity identity, const RunStatus& status) {
  if (!status.node.empty()) {
    identity.node = status.node;
    identity.cluster = status.cluster;
  }
  return identity;
}

control_api::Status StatusMessage(const RunIdentity& given, const RunStatus& status) {
  const RunIdentity identity = IdentityOf(given, status);
  control_api::Status message;
  if (!identity.node.empty()) message.set_node(identity.node);
  if (!identity.cluster.empty()) message.set_cluster(identity.cluster);
  if (!identity.solver.empty()) message.set_solver(identity.solver);
  message.set_version(Version());
  message.set_pid(getpid());
  message.set_state(NameOf(status.state));
  message.set_iteration(Narrow(status.iteration));
  message.set_max_iteration(Narrow(status.max_iteration));
  message.set_loss(status.loss);
  message.set_learning_rate(status.learning_rate);
  if (status.set_learning_rate > 0) message.set_set_learning_rate(status.set_learning_rate);
  message.set_seconds(status.seconds);
  if (status.iterations_per_second) {
    message.set_iterations_per_second(*status.iterations_per_second);
    message.set_images_per_second(*status.iterations_per_second * status.images_per_iteration);
  }
  if (const auto remaining = RemainingSeconds(status)) message.set_remaining_seconds(*remaining);
  for (const RunTest& test : status.tests) *message.add_test() = TestMessage(test);
  message.set_tests_done(Narrow(status.tests_done));
  message.set_snapshots_written(Narrow(status.snapshots_written));
  if (status.snapshot_iteration >= 0) {
    message.set_snapshot_iteration(Narrow(status.snapshot_iteration));
    message.set_snapshot(status.snapshot);
  }
  return message;
}

control_api::TrainerStatus TrainerStatusMessage(const RunStatus& status, double unix_seconds) {
  control_api::TrainerStatus message;
  if (status.max_iteration > 0) {
    const int64_t done = std::clamp<int64_t>(status.iteration, 0, status.max_iteration);
    message.set_progresspercentage(static_cast<int32_t>(100 * done / status.max_iteration));
  }
  if (const auto remaining = RemainingSeconds(status)) {
    message.set_estimatedremainingseconds(static_cast<int32_t>(std::min(*remaining, 2e9)));
  }
  AddMetric("loss", status.loss, &message);
  AddMetric("learning_rate", status.learning_rate, &message);
  AddMetric("iteration", static_cast<double>(status.iteration), &message);
  for (const RunTest& test : status.tests) {
    const std::string begin = test.net == 0 ? "test_" : StrCat("test", test.net, "_");
    for (const TestOutput& output : test.outputs)
      AddMetric(begin + output.name, output.mean, &message);
  }
  message.set_lastupdatedtime(Rfc3339(unix_seconds));
  return message;
}

control_api::Metrics MetricsMessage(const MetricsReading& reading) {
  control_api::Metrics message;
  for (const MetricsReading::Metric& metric : reading.metrics) {
    const MetricsReading::Family& family = reading.families[metric.family];
    control_api::Metric* const to = message.add_metric();
    to->set_name(OneLine(family.name));
    for (const auto& [key, value] : metric.labels)
      (*to->mutable_label())[OneLine(key)] = OneLine(value);
    to->set_value(metric.value);
    to->set_type(std::string(NameOf(family.type)));
    if (!family.unit.empty()) to->set_unit(OneLine(family.unit));
    to->set_help(OneLine(family.help));
  }
  return message;
}

HttpResponse ScrapeResponse(const HttpRequest& request, const MetricsReading& reading) {
  const bool open =
      request.Header("accept").find("application/openmetrics-text") != std::string_view::npos;
  const MetricsFormat format = open ? MetricsFormat::kOpenMetrics : MetricsFormat::kPrometheus;
  return {.type = ContentType(format), .body = FormatMetrics(reading, format)};
}

std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) throw Error(OneLine(std::string(status.message())));
  return text;
}

void ReadJson(const std::string& json, const std::string& what,
              google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(json, message, options);
  if (!status.ok())
    throw Error(what, ": is not the expected JSON: ", std::string(status.message()));
}

}  // namespace millrace::inline control
