#include "control/api.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "control/commands.h"
#include "control/page.h"
#include "control/run_metrics.h"
#include "metrics/registry.h"

namespace millrace::inline control {
namespace {

HttpResponse JsonResponse(const google::protobuf::Message& message) {
  return {.status = 200, .body = JsonOf(message) + "\n"};
}

// Reads a body in JSON; an empty one is an empty message. Throws Error.
void ReadBody(const std::string& body, google::protobuf::Message* message) {
  if (body.empty()) return;
  const auto status = google::protobuf::util::JsonStringToMessage(body, message);
  if (!status.ok()) {
    throw Error("the body is no JSON of a ", message->GetDescriptor()->name(), ": ",
                std::string(status.message()));
  }
}

// The parts of a route's path that come before "{".
std::string_view FixedPart(const ControlApi::Route& route) {
  const std::string_view path = route.path;
  return path.substr(0, path.find('{'));
}

// Whether `path` belongs to the route, and if so the part of it at "{...}".
bool Matches(const ControlApi::Route& route, std::string_view path, std::string* rest) {
  const std::string_view fixed = FixedPart(route);
  if (fixed.size() == std::string_view(route.path).size()) return path == fixed;
  if (!path.starts_with(fixed) || path.size() == fixed.size()) return false;
  *rest = path.substr(fixed.size());
  return true;
}

}  // namespace

const std::vector<ControlApi::Route>& ControlApi::Routes() {
  static const std::vector<Route> routes = {
      {"GET", "/v1/status", Access::kRead, "The state of the run.", &ControlApi::Status, "",
       "Status"},
      {"POST", "/v1/pause", Access::kControl, "Begins no further iteration.", &ControlApi::Pause,
       "", "Done"},
      {"POST", "/v1/resume", Access::kControl, "Ends a pause.", &ControlApi::Resume, "", "Done"},
      {"POST", "/v1/snapshot", Access::kControl, "Writes a snapshot, and goes on.",
       &ControlApi::Snapshot, "", "Done"},
      {"POST", "/v1/test", Access::kControl, "Runs the test nets, and goes on.", &ControlApi::Test,
       "", "Done"},
      {"POST", "/v1/stop", Access::kControl, "Finishes the iterations, saves and ends.",
       &ControlApi::Stop, "", "Done"},
      {"POST", "/v1/learning_rate", Access::kControl,
       "Replaces the learning rate of the solver file.", &ControlApi::LearningRate, "LearningRate",
       "Done"},
      {"GET", "/v1/events", Access::kRead,
       "The events of the run as server-sent events, each with a Status: state, test, snapshot, "
       "learning_rate, and progress once a second.",
       &ControlApi::Events, "", "text/event-stream"},
      {"GET", "/v1/commands", Access::kRead, "The commands of the program and its plugins.",
       &ControlApi::Commands, "", "Commands"},
      {"POST", "/v1/commands/{name}", Access::kControl, "Calls a command with JSON.",
       &ControlApi::Call, "*", "*"},
      {"GET", "/v1/history", Access::kRead, "The course of the run in at most 600 points.",
       &ControlApi::History, "", "History"},
      {"GET", "/v1/health", Access::kRead, "What the node waits for, and its links.",
       &ControlApi::Health, "", "Health"},
      {"GET", "/v1/metrics", Access::kRead, "The metrics of the process.", &ControlApi::Metrics, "",
       "Metrics"},
      {"GET", "/v1/nodes", Access::kRead, "The nodes of the cluster.", &ControlApi::Nodes, "",
       "Nodes"},
      {"GET", "/v1/nodes/{node_and_path}", Access::kRead,
       "Asks another node: /v1/nodes/b/status is /v1/status of b.", &ControlApi::Forward, "", "*"},
      {"POST", "/v1/nodes/{node_and_path}", Access::kControl,
       "Asks another node: /v1/nodes/b/pause is /v1/pause of b.", &ControlApi::Forward, "*", "*"},
      {"GET", "/metrics", Access::kRead, "The metrics for Prometheus.", &ControlApi::OpenMetrics,
       "", "text/plain"},
      {"GET", "/status.json", Access::kRead, "Progress with the names of Kubeflow's trainer.",
       &ControlApi::TrainerStatus, "", "TrainerStatus"},
      {"GET", "/", Access::kPublic, "The page for people.", &ControlApi::Page, "", "text/html"},
      {"GET", "/page/{file}", Access::kPublic, "A file of that page.", &ControlApi::PageFile, "",
       "text/plain"},
      {"GET", "/openapi.json", Access::kPublic, "This description.", &ControlApi::OpenApi, "", "*"},
  };
  return routes;
}

ControlApi::ControlApi(ControlApiConfig config, RunHandle* run, AccessCheck* access)
    : config_(std::move(config)), run_(*run), access_(*access) {
  if (config_.metrics == nullptr) return;
  const MetricScope scope(config_.metrics, "control", {});
  const auto add = [&](const char* result) {
    return scope.AddCounter({"requests_total", "Requests to the control service, by result."},
                            {{"result", result}});
  };
  answered_ = add("answered");
  refused_ = add("refused");
  failed_ = add("failed");
}

void ControlApi::Handle(const HttpRequest& request, const HttpDone& done) {
  const HttpDone counted = [this, done](HttpResponse response) {
    Counter* const counter = response.status < 400                              ? answered_
                             : response.status == 401 || response.status == 403 ? refused_
                                                                                : failed_;
    if (counter != nullptr) counter->AddShared();
    done(std::move(response));
  };
  const auto unix_seconds = static_cast<int64_t>(config_.unix_seconds());
  std::string allowed;
  for (const Route& route : Routes()) {
    std::string rest;
    if (!Matches(route, request.path(), &rest)) continue;
    if (request.method != route.method) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
      continue;
    }
    if (const auto refusal = access_.Check(request, route.access, unix_seconds)) {
      return counted(RefusalResponse(*refusal));
    }
    try {
      return (this->*route.answer)(request, rest, counted);
    } catch (const Error& error) {
      return counted(ProblemResponse(400, error.what()));
    }
  }
  if (allowed.empty()) {
    return counted(ProblemResponse(404, "there is no such path; /openapi.json lists them"));
  }
  HttpResponse response = ProblemResponse(405, "expected the method " + allowed);
  response.headers.emplace_back("Allow", allowed);
  counted(std::move(response));
}

void ControlApi::Status(const HttpRequest&, const std::string&, const HttpDone& done) {
  done(JsonResponse(StatusMessage(config_.identity, run_.status())));
}

void ControlApi::TrainerStatus(const HttpRequest&, const std::string&, const HttpDone& done) {
  done(JsonResponse(TrainerStatusMessage(run_.status(), config_.unix_seconds())));
}

void ControlApi::Follow(const RunStatus& status) {
  history_.Add(status);
  const double now = config_.unix_seconds();
  if (config_.metrics == nullptr || std::abs(now - health_at_) < 1) return;
  if (now < health_at_) health_ = HealthMonitor();  // the clock has been set back
  health_at_ = now;
  health_.Add(now, config_.metrics->Read(), status.state == RunStatus::State::kTraining);
}

void ControlApi::History(const HttpRequest&, const std::string&, const HttpDone& done) {
  done(JsonResponse(history_.message()));
}

void ControlApi::Health(const HttpRequest&, const std::string&, const HttpDone& done) {
  done(JsonResponse(health_.health()));
}

void ControlApi::Metrics(const HttpRequest&, const std::string&, const HttpDone& done) {
  done(JsonResponse(
      MetricsMessage(ReadRunMetrics(config_.metrics, config_.identity, run_.status()))));
}

void ControlApi::OpenMetrics(const HttpRequest& request, const std::string&, const HttpDone& done) {
  done(ScrapeResponse(request, ReadRunMetrics(config_.metrics, config_.identity, run_.status())));
}

void ControlApi::Events(const HttpRequest& request, const std::string&, const HttpDone& done) {
  const std::string last(request.Header("last-event-id"));
  uint64_t after = 0;
  if (!last.empty()) {
    const bool digits =
        last.size() < 20 && last.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw Error("Last-Event-ID: expected the id of an event");
    after = std::stoull(last);
  }
  done({.type = "text/event-stream", .events_after = after});
}

void ControlApi::Nodes(const HttpRequest&, const std::string&, const HttpDone& done) {
  const auto answer = [this, done](const NodeAddresses& addresses) {
    const std::string self = IdentityOf(config_.identity, run_.status()).node;
    control_api::Nodes nodes;
    for (const auto& [name, address] : addresses) {
      control_api::Node* const node = nodes.add_node();
      node->set_name(name);
      if (!address.empty()) node->set_address(address);
      if (name == self) node->set_self(true);
    }
    done(JsonResponse(nodes));
  };
  if (!config_.find_nodes) return answer(config_.nodes);
  InBackground(done, [this, answer] { answer(config_.find_nodes()); });
}

void ControlApi::Forward(const HttpRequest& request, const std::string& rest,
                         const HttpDone& done) {
  const size_t slash = rest.find('/');
  const std::string name = rest.substr(0, slash);
  const std::string path = slash == std::string::npos ? "" : rest.substr(slash + 1);
  if (path.empty() || path.starts_with("nodes") || path == "events") {
    return done(ProblemResponse(404, "expected /v1/nodes/NODE/PATH, as in /v1/nodes/b/status"));
  }
  HttpRequest forwarded{
      .method = request.method,
      .target = StrCat("/v1/", path, request.target.substr(request.path().size())),
      .body = request.body};
  InBackground(done, [this, done, name, forwarded = std::move(forwarded)] {
    done(Send(config_.find_nodes ? config_.find_nodes() : config_.nodes, name, forwarded));
  });
}

void ControlApi::InBackground(const HttpDone& done, std::function<void()> work) {
  const bool started = config_.start_forward([done, work = std::move(work)] {
    try {
      work();
    } catch (const Error& error) {
      done(ProblemResponse(502, error.what()));
    }
  });
  if (!started) Busy(done);
}

HttpResponse ControlApi::Send(const NodeAddresses& nodes, const std::string& name,
                              const HttpRequest& request) const {
  const auto node = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const auto& each) { return each.first == name; });
  const bool is_elastic = config_.find_nodes != nullptr;
  if (node == nodes.end()) {
    const char* const where = is_elastic ? "registered now" : "in the topology";
    return ProblemResponse(404, StrCat("there is no node \"", name, "\" ", where));
  }
  if (node->second.empty()) {
    const char* const why =
        is_elastic ? " that others reach" : ": its `control` in the topology is missing";
    return ProblemResponse(404, StrCat("node \"", name, "\" has no control service", why));
  }
  try {
    return config_.send(node->second, request);
  } catch (const Error& error) {
    throw Error("node ", name, ": ", error.what());
  }
}

void ControlApi::Commands(const HttpRequest&, const std::string&, const HttpDone& done) {
  control_api::Commands commands;
  for (const ControlCommand& command : config_.commands) {
    control_api::Command* const to = commands.add_command();
    to->set_name(command.name);
    to->set_help(command.help);
  }
  done(JsonResponse(commands));
}

void ControlApi::Call(const HttpRequest& request, const std::string& rest, const HttpDone& done) {
  const auto command = std::find_if(config_.commands.begin(), config_.commands.end(),
                                    [&](const auto& each) { return each.name == rest; });
  if (command == config_.commands.end()) {
    return done(ProblemResponse(404, "there is no command \"" + rest + "\""));
  }
  const std::string arguments = request.body.empty() ? "null" : request.body;
  if (!IsJson(arguments)) throw Error("the body is no JSON");
  const bool started = config_.start_command([this, done, command = &*command, arguments] {
    try {
      const std::string result = command->run({.run = run_, .arguments = arguments});
      if (!IsJson(result)) throw Error("its result is no JSON");
      done({.body = result + "\n"});
    } catch (const std::exception& error) {
      done(ProblemResponse(500, StrCat("command ", command->name, ": ", error.what())));
    }
  });
  if (!started) Busy(done);
}

void ControlApi::Busy(const HttpDone& done) {
  done(ProblemResponse(503, "too many requests of this kind wait"));
}

void ControlApi::Ask(const HttpDone& done, const std::function<void()>& request) {
  try {
    request();
  } catch (const Error& error) {
    return done(ProblemResponse(409, error.what()));
  }
  done(JsonResponse(control_api::Done()));
}

void ControlApi::Pause(const HttpRequest&, const std::string&, const HttpDone& done) {
  Ask(done, [this] { run_.Pause(); });
}
void ControlApi::Resume(const HttpRequest&, const std::string&, const HttpDone& done) {
  Ask(done, [this] { run_.Resume(); });
}
void ControlApi::Snapshot(const HttpRequest&, const std::string&, const HttpDone& done) {
  Ask(done, [this] { run_.Snapshot(); });
}
void ControlApi::Test(const HttpRequest&, const std::string&, const HttpDone& done) {
  Ask(done, [this] { run_.Test(); });
}
void ControlApi::Stop(const HttpRequest&, const std::string&, const HttpDone& done) {
  Ask(done, [this] { run_.Stop(); });
}

void ControlApi::LearningRate(const HttpRequest& request, const std::string&,
                              const HttpDone& done) {
  control_api::LearningRate message;
  ReadBody(request.body, &message);
  if (!message.has_rate()) throw Error("rate: missing, expected a number of at least 0");
  if (!std::isfinite(message.rate()) || message.rate() < 0) {
    throw Error("rate: ", message.rate(), ", expected a finite number of at least 0");
  }
  Ask(done, [&] { run_.SetLearningRate(message.rate()); });
}

// Without JavaScript the page has a table of the values that the caller may read.
void ControlApi::Page(const HttpRequest& request, const std::string&, const HttpDone& done) {
  const auto unix_seconds = static_cast<int64_t>(config_.unix_seconds());
  std::optional<control_api::Status> status;
  if (!access_.Check(request, Access::kRead, unix_seconds)) {
    status = StatusMessage(config_.identity, run_.status());
  }
  done(PageResponse(status));
}

void ControlApi::PageFile(const HttpRequest&, const std::string& name, const HttpDone& done) {
  done(PageFileResponse(name));
}

void ControlApi::OpenApi(const HttpRequest&, const std::string&, const HttpDone& done) {
  done({.body = OpenApiDocument() + "\n"});
}

}  // namespace millrace::inline control
