// The metrics of a run as Prometheus reads them, and the files for Prometheus, Grafana, TensorBoard
// and clients by OpenAPI.
#include <algorithm>
#include <filesystem>
#include <set>

#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

CommandResult Shell(const std::string& line) { return test::Run({"/bin/bash", "-c", line}); }

bool IsInstalled(const std::string& program) {
  return Shell("command -v " + program + " >/dev/null").status == 0;
}

// A training without end of one node of a cluster, so that it has the metrics of a segment.
class Scrape : public testing::Test {
 protected:
  Scrape() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100'000'000), 1'000'000);
    WriteFile(work_ / "pair.prototxt",
              StrCat("name: 'scrape-", getpid(),
                     "' node { name: 'a' address: '127.0.0.1' control: "
                     "'127.0.0.1:",
                     port_,
                     "' } node { name: 'b' address: '127.0.0.2' } segment { "
                     "name: 'lan' transport: 'udp' port: ",
                     FreePort(), " }"));
    training_.emplace(Command({"train", "--solver=" + work_.Write("run", solver), "--node=a",
                               "--topology=" + (work_ / "pair.prototxt")}));
    EXPECT_TRUE(Eventually([&] {
      return Get("metrics").find("millrace_run_loss ") != std::string::npos;
    })) << training_->ErrorsSoFar();
  }
  std::string Url(const std::string& path) const {
    return StrCat("http://127.0.0.1:", port_, "/", path);
  }
  std::string Get(const std::string& path) const {
    return test::Run({"/usr/bin/python3", "-c",
                      "import sys, urllib.request; "
                      "print(urllib.request.urlopen(sys.argv[1]).read().decode(), end='')",
                      Url(path)})
        .output;
  }

  Workspace work_;
  const int port_ = FreePort();
  std::optional<Process> training_;
};

TEST_F(Scrape, PromtoolFindsNothingToCriticise) {
  if (!IsInstalled("promtool")) GTEST_SKIP() << "promtool (package prometheus) is not installed";
  WriteFile(work_ / "metrics", Get("metrics"));
  const CommandResult result = Shell("promtool check metrics < " + (work_ / "metrics"));
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_EQ(result.output + result.errors, "");
}

TEST_F(Scrape, PrometheusReadsTheMetrics) {
  if (!IsInstalled("prometheus")) GTEST_SKIP() << "prometheus is not installed";
  WriteFile(work_ / "prometheus.yml",
            StrCat("global: {scrape_interval: 200ms}\nscrape_configs:\n  - job_name: millrace\n    "
                   "static_configs: [{targets: ['127.0.0.1:",
                   port_, "']}]\n"));
  const int port = FreePort();
  Process prometheus({"/usr/bin/env", "prometheus", "--config.file=" + (work_ / "prometheus.yml"),
                      "--storage.tsdb.path=" + (work_ / "data"),
                      StrCat("--web.listen-address=127.0.0.1:", port)});
  std::string answer;
  const auto asked = [&](const std::string& query) {
    answer = test::Run({"/usr/bin/python3", "-c",
                        "import sys, urllib.request; "
                        "print(urllib.request.urlopen(sys.argv[1]).read().decode(), end='')",
                        StrCat("http://127.0.0.1:", port, "/api/v1/query?query=", query)})
                 .output;
    return answer.find("\"value\":[") != std::string::npos;
  };
  EXPECT_TRUE(Eventually([&] { return asked("millrace_run_state{state=\"training\"}==1"); }))
      << answer << prometheus.ErrorsSoFar();
  EXPECT_TRUE(Eventually([&] { return asked("rate(millrace_run_iterations_here_total[5s])>0"); }))
      << answer;
  EXPECT_TRUE(asked("millrace_segment_members{segment=\"lan\"}")) << answer;
}

// What the alerts and the dashboard name is there.
TEST_F(Scrape, TheFilesForPrometheusNameMetricsThatExist) {
  const std::string metrics = Get("metrics");
  std::set<std::string> exist;
  for (const std::string& name : Matches(metrics, "# TYPE ([a-z0-9_]+) ")) exist.insert(name);
  // These appear with the first test, snapshot and peer.
  exist.insert({"millrace_run_test_output", "millrace_run_snapshot_timestamp_seconds"});
  for (const char* file : {"millrace.rules.yml", "grafana-dashboard.json"}) {
    const std::string text = ReadFile(StrCat("packaging/prometheus/", file));
    const auto named = Matches(text, "((millrace|process)_[a-z0-9_]*[a-z0-9])[ ){\\[]");
    EXPECT_GT(named.size(), 5u);
    for (const std::string& name : named) EXPECT_TRUE(exist.count(name)) << file << ": " << name;
  }
}

TEST(Alerts, FireForTheirCausesOnly) {
  if (!IsInstalled("promtool")) GTEST_SKIP() << "promtool (package prometheus) is not installed";
  const CommandResult result =
      Shell("cd packaging/prometheus && promtool test rules millrace.rules.test.yml");
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
}

// An interpreter with packages of PyPI: build/peers, or MILLRACE_TEST_PYTHON.
std::string PythonWith(const std::string& module) {
  const char* const given = std::getenv("MILLRACE_TEST_PYTHON");
  const std::string python = given != nullptr ? given : Dirname(Binary()) + "peers/bin/python";
  const CommandResult result = Shell(python + " -c 'import " + module + "'");
  return result.status == 0 ? python : "";
}

TEST_F(Scrape, IsDescribedByOpenApi) {
  const std::string python = PythonWith("openapi_spec_validator");
  if (python.empty()) GTEST_SKIP() << "openapi-spec-validator of PyPI is not in build/peers";
  WriteFile(work_ / "openapi.json", Get("openapi.json"));
  const CommandResult result = test::Run({python, "-c", R"(
import json, sys
from openapi_spec_validator import validate
validate(json.load(open(sys.argv[1]))))",
                                          work_ / "openapi.json"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(EventFiles, AreReadByTensorboard) {
  const std::string python = PythonWith("tensorboard");
  if (python.empty()) GTEST_SKIP() << "tensorboard of PyPI is not in build/peers";
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100), 50);
  solver.set_display(10);
  const CommandResult trained = Millrace(
      {"train", "--solver=" + work.Write("run", solver), "--tensorboard=" + (work / "events")});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const CommandResult result = test::Run({python, "-c", R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
for tag in sorted(events.Tags()['scalars']):
    print(tag, [event.step for event in events.Scalars(tag)]))",
                                          work / "events"});
  EXPECT_CONTAINS(result.output, "test/accuracy [0, 50, 100]\n") << result.errors;
  EXPECT_CONTAINS(result.output, "train/loss [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]\n")
      << result.errors;
}

}  // namespace
}  // namespace millrace::test
