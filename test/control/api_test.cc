#include "control/api.h"

#include <gtest/gtest.h>

#include <optional>

#include "millrace/metrics.h"
#include "test/control/fake_run.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// An API on a loopback address whose background tasks run at once.
class Api : public testing::Test {
 protected:
  Api() {
    run_.Set(SomeStatus());
    config_.identity = {.node = "a", .cluster = "pair", .solver = "solver.prototxt"};
    config_.nodes = {{"a", "10.0.0.1:8400"}, {"b", "10.0.0.2:8400"}, {"c", ""}};
    config_.metrics = &registry_;
    config_.unix_seconds = [] { return 1.6e9; };
    config_.start_command = config_.start_forward = [this](const std::function<void()>& task) {
      if (!busy_) task();
      return !busy_;
    };
    config_.send = [this](const std::string& address, const HttpRequest& request) -> HttpResponse {
      if (address != "10.0.0.2:8400") throw Error("no such address");
      sent_ = request;
      return {.status = 409, .body = "of b"};
    };
    config_.commands = {
        {.name = "echo",
         .help = "Returns it.",
         .run =
             [](const ControlCall& call) {
               call.run.Pause();
               return call.arguments;
             }},
        {.name = "fail",
         .help = "",
         .run = [](const ControlCall&) -> std::string { throw Error("no layer of this name"); }},
        {.name = "text", .help = "", .run = [](const ControlCall&) { return std::string("{"); }}};
  }

  HttpResponse Ask(const std::string& method, const std::string& target,
                   const std::string& body = "", bool with_token = true) {
    if (!api_) api_.emplace(config_, &run_, &access_);
    HttpRequest request{
        .method = method, .target = target, .headers = {{"host", "127.0.0.1:8400"}}, .body = body};
    if (with_token) request.headers["authorization"] = "Bearer " + ControlToken(key_);
    std::optional<HttpResponse> response;
    api_->Handle(request, [&](HttpResponse given) { response = std::move(given); });
    EXPECT_TRUE(response);
    return response.value_or(HttpResponse());
  }
  static control_api::Status StatusOf(const std::string& json) {
    control_api::Status status;
    ReadJson(json, "the status", &status);
    return status;
  }
  // Returns status and error of a request that is refused.
  std::string Problem(const std::string& method, const std::string& target,
                      const std::string& body = "", bool with_token = true) {
    const HttpResponse response = Ask(method, target, body, with_token);
    EXPECT_GE(response.status, 400);
    control_api::Problem problem;
    ReadJson(response.body, target, &problem);
    return StrCat(response.status, " ", problem.error());
  }

  FakeRun run_;
  MetricsRegistry registry_;
  ControlApiConfig config_;
  SecretKey key_;
  AccessCheck access_{key_, {"127.0.0.1:8400", true, false}};
  std::optional<ControlApi> api_;
  HttpRequest sent_;
  bool busy_ = false;
};

TEST_F(Api, GivesTheStatus) {
  control_api::Status status;
  ReadJson(Ask("GET", "/v1/status").body, "status", &status);
  EXPECT_EQ(status.node(), "a");
  EXPECT_EQ(status.cluster(), "pair");
  EXPECT_EQ(status.solver(), "solver.prototxt");
  EXPECT_EQ(status.state(), "training");
  EXPECT_EQ(status.iteration(), 250);
  EXPECT_EQ(status.max_iteration(), 1000);
  EXPECT_EQ(status.iterations_per_second(), 10);
  EXPECT_EQ(status.images_per_second(), 640);
  EXPECT_EQ(status.remaining_seconds(), 75);
  ASSERT_EQ(status.test_size(), 1);
  EXPECT_EQ(status.test(0).output().at("accuracy"), 0.75);
  EXPECT_EQ(status.snapshot(), "lenet_iter_200.solverstate");
  EXPECT_FALSE(status.has_set_learning_rate());
}

TEST_F(Api, AsksTheRun) {
  for (const char* what : {"pause", "resume", "snapshot", "test", "stop"}) {
    EXPECT_EQ(Ask("POST", StrCat("/v1/", what)).status, 200);
    EXPECT_EQ(run_.Take(), std::vector<std::string>{what});
  }
  EXPECT_EQ(Ask("POST", "/v1/learning_rate", "{\"rate\": 0.5}").status, 200);
  EXPECT_EQ(run_.Take(), std::vector<std::string>{"rate 0.500000"});
  run_.Refuse("the run has ended");
  EXPECT_EQ(Problem("POST", "/v1/pause"), "409 the run has ended");
}

TEST_F(Api, RefusesBadRates) {
  EXPECT_EQ(Problem("POST", "/v1/learning_rate"),
            "400 rate: missing, expected a number of at least 0");
  EXPECT_CONTAINS(Problem("POST", "/v1/learning_rate", "{\"rate\":-1}"),
                  "expected a finite number");
  EXPECT_CONTAINS(Problem("POST", "/v1/learning_rate", "{\"rate\":\"NaN\"}"), "finite number");
  for (const char* body :
       {"{", "[]", "7", "{\"rate\":\"fast\"}", "{\"speed\":1}", "{\"rate\":1e99}"}) {
    EXPECT_CONTAINS(Problem("POST", "/v1/learning_rate", body), "400 ") << body;
  }
  EXPECT_TRUE(run_.Take().empty());
}

TEST_F(Api, RefusesOtherPathsAndMethods) {
  EXPECT_CONTAINS(Problem("GET", "/v2/status"), "404 ");
  EXPECT_CONTAINS(Problem("GET", "/../etc/passwd"), "404 ");
  EXPECT_CONTAINS(Problem("GET", ""), "404 ");
  EXPECT_EQ(Problem("POST", "/v1/status"), "405 expected the method GET");
  EXPECT_EQ(Problem("DELETE", "/v1/nodes/b/status"), "405 expected the method GET, POST");
  EXPECT_EQ(Problem("GET", "/v1/pause"), "405 expected the method POST");
  EXPECT_TRUE(run_.Take().empty());
}

TEST_F(Api, ControlsOnlyWithAToken) {
  for (const ControlApi::Route& route : ControlApi::Routes()) {
    if (route.access != Access::kControl) continue;
    EXPECT_CONTAINS(Problem(route.method, route.path, "", false), "401 ") << route.path;
  }
  EXPECT_TRUE(run_.Take().empty());
  EXPECT_EQ(Ask("GET", "/v1/status", "", false).status, 200);
}

TEST_F(Api, CallsCommands) {
  const HttpResponse list = Ask("GET", "/v1/commands");
  control_api::Commands commands;
  ReadJson(list.body, "commands", &commands);
  ASSERT_EQ(commands.command_size(), 3);
  EXPECT_EQ(commands.command(0).name(), "echo");
  EXPECT_EQ(commands.command(0).help(), "Returns it.");
  EXPECT_EQ(Ask("POST", "/v1/commands/echo", "[1, {\"a\": null}]").body, "[1, {\"a\": null}]\n");
  EXPECT_EQ(run_.Take(), std::vector<std::string>{"pause"});
  EXPECT_EQ(Ask("POST", "/v1/commands/echo").body, "null\n");
  EXPECT_EQ(Problem("POST", "/v1/commands/echo", "[1,"), "400 the body is no JSON");
  EXPECT_EQ(Problem("POST", "/v1/commands/none"), "404 there is no command \"none\"");
  EXPECT_EQ(Problem("POST", "/v1/commands/fail"), "500 command fail: no layer of this name");
  EXPECT_EQ(Problem("POST", "/v1/commands/text"), "500 command text: its result is no JSON");
  busy_ = true;
  EXPECT_CONTAINS(Problem("POST", "/v1/commands/echo"), "503 ");
}

TEST_F(Api, ForwardsToOtherNodes) {
  const HttpResponse response = Ask("POST", "/v1/nodes/b/learning_rate", "{\"rate\":1}");
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(response.body, "of b");
  EXPECT_EQ(sent_.method, "POST");
  EXPECT_EQ(sent_.target, "/v1/learning_rate");
  EXPECT_EQ(sent_.body, "{\"rate\":1}");
  EXPECT_FALSE(sent_.headers.count("authorization"));  // the sender signs with its own key
  Ask("GET", "/v1/nodes/b/status?x=1", "", false);
  EXPECT_EQ(sent_.target, "/v1/status?x=1");
  EXPECT_EQ(Problem("GET", "/v1/nodes/a/status"), "502 node a: no such address");
  EXPECT_CONTAINS(Problem("GET", "/v1/nodes/c/status"), "404 node \"c\" has no control service");
  EXPECT_EQ(Problem("GET", "/v1/nodes/x/status"), "404 there is no node \"x\" in the topology");
  for (const char* path : {"b", "b/", "b/nodes/c/status", "b/events"}) {
    EXPECT_CONTAINS(Problem("GET", StrCat("/v1/nodes/", path)), "404 expected /v1/nodes/NODE/PATH");
  }
  busy_ = true;
  EXPECT_CONTAINS(Problem("GET", "/v1/nodes/b/status"), "503 ");
}

TEST_F(Api, ListsTheNodes) {
  control_api::Nodes nodes;
  ReadJson(Ask("GET", "/v1/nodes").body, "nodes", &nodes);
  ASSERT_EQ(nodes.node_size(), 3);
  EXPECT_TRUE(nodes.node(0).self());
  EXPECT_EQ(nodes.node(1).address(), "10.0.0.2:8400");
  EXPECT_FALSE(nodes.node(2).has_address());
}

// The run knows its node only once it is registered, and others come and go.
TEST_F(Api, FindsTheNodesOfAnElasticRun) {
  config_.identity = {};
  config_.nodes.clear();
  NodeAddresses registered = {{"n0", "10.0.0.2:8400"}, {"n2", ""}};
  config_.find_nodes = [&] {
    if (registered.empty()) throw Error("etcd does not answer");
    return registered;
  };
  EXPECT_EQ(StatusOf(Ask("GET", "/v1/status").body).node(), "");
  RunStatus status = SomeStatus();
  status.node = "n2";
  status.cluster = "run";
  run_.Set(status);
  EXPECT_EQ(StatusOf(Ask("GET", "/v1/status").body).node(), "n2");
  EXPECT_CONTAINS(Ask("GET", "/metrics").body, "cluster=\"run\",node=\"n2\"");
  control_api::Nodes nodes;
  ReadJson(Ask("GET", "/v1/nodes").body, "nodes", &nodes);
  ASSERT_EQ(nodes.node_size(), 2);
  EXPECT_FALSE(nodes.node(0).self());
  EXPECT_TRUE(nodes.node(1).self());
  EXPECT_EQ(Ask("POST", "/v1/nodes/n0/pause").body, "of b");
  EXPECT_EQ(Problem("POST", "/v1/nodes/n2/pause"),
            "404 node \"n2\" has no control service that others reach");
  EXPECT_EQ(Problem("POST", "/v1/nodes/n1/pause"), "404 there is no node \"n1\" registered now");
  registered.clear();
  EXPECT_EQ(Problem("GET", "/v1/nodes"), "502 etcd does not answer");
  EXPECT_EQ(Problem("GET", "/v1/nodes/n0/status"), "502 etcd does not answer");
  busy_ = true;
  EXPECT_CONTAINS(Problem("GET", "/v1/nodes"), "503 ");
}

TEST_F(Api, GivesMetrics) {
  registry_.AddCounter({"csv_rows_total", "Rows."}, {{"file", "a\"b\\"}})->Set(7);
  Ask("GET", "/v1/status");
  Problem("POST", "/v1/pause", "", false);
  const std::string text = Ask("GET", "/metrics").body;
  for (const char* line :
       {"# TYPE csv_rows_total counter\n", "csv_rows_total{file=\"a\\\"b\\\\\"} 7\n",
        "millrace_run_state{state=\"training\"} 1\n", "millrace_run_state{state=\"paused\"} 0\n",
        "millrace_run_iterations_max 1000\n",
        "millrace_run_test_output{net=\"0\",output=\"accuracy\",index=\"0\"} 0.75\n",
        "millrace_run_snapshot_timestamp_seconds 1.5e+09\n",
        "millrace_control_requests_total{result=\"answered\"} 1\n",
        "millrace_control_requests_total{result=\"refused\"} 1\n",
        "# TYPE process_resident_memory_bytes gauge\n"}) {
    EXPECT_CONTAINS(text, line);
  }
  control_api::Metrics metrics;
  ReadJson(Ask("GET", "/v1/metrics").body, "metrics", &metrics);
  bool found = false;
  for (const control_api::Metric& each : metrics.metric()) {
    if (each.name() != "csv_rows_total") continue;
    found = true;
    EXPECT_EQ(each.value(), 7);
    EXPECT_EQ(each.type(), "counter");
    EXPECT_EQ(each.label().at("file"), "a\"b\\");
  }
  EXPECT_TRUE(found);
}

TEST_F(Api, GivesProgressAsKubeflowsTrainer) {
  control_api::TrainerStatus status;
  ReadJson(Ask("GET", "/status.json").body, "status", &status);
  EXPECT_EQ(status.progresspercentage(), 25);
  EXPECT_EQ(status.estimatedremainingseconds(), 75);
  EXPECT_EQ(status.lastupdatedtime(), "2020-09-13T12:26:40Z");
  ASSERT_GE(status.metrics_size(), 4);
  EXPECT_EQ(status.metrics(0).name(), "loss");
  EXPECT_EQ(status.metrics(0).value(), "0.5");
  EXPECT_EQ(status.metrics(3).name(), "test_accuracy");
}

TEST_F(Api, TakesTheEventToGoOnFrom) {
  EXPECT_EQ(Ask("GET", "/v1/events").events_after, 0u);
  HttpRequest request{.target = "/v1/events",
                      .headers = {{"host", "localhost"}, {"last-event-id", "42"}}};
  std::optional<HttpResponse> response;
  const auto take = [&](HttpResponse given) { response = std::move(given); };
  api_->Handle(request, take);
  EXPECT_EQ(response->events_after, 42u);
  for (const char* bad : {"x", "-1", "99999999999999999999999"}) {
    request.headers["last-event-id"] = bad;
    api_->Handle(request, take);
    EXPECT_EQ(response->status, 400) << bad;
  }
}

// Every route and every message that it names is in the description.
TEST_F(Api, DescribesItself) {
  const std::string text = Ask("GET", "/openapi.json", "", false).body;
  for (const ControlApi::Route& route : ControlApi::Routes()) {
    EXPECT_CONTAINS(text, StrCat("\"", route.path, "\""));
    EXPECT_CONTAINS(text, route.summary);
    for (const std::string each : {route.input, route.output}) {
      const bool is_message = !each.empty() && each != "*" && each.find('/') == std::string::npos;
      if (!is_message) continue;
      EXPECT_CONTAINS(text, "#/components/schemas/" + each);
    }
  }
}

}  // namespace
}  // namespace millrace::test
