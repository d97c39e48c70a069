// A run that is controlled through its control service, as an operator does it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "control/http_client.h"
#include "millrace/file_descriptor.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// A training without end, with a control service at an address of its own.
class ControlledRun {
 public:
  ControlledRun()
      : training_(Command({"train", "--solver=" + work_.Write("run", Endless()), "--control=0"})) {
    EXPECT_TRUE(WaitForLog(training_, "Control service: http://")) << training_.ErrorsSoFar();
    url_ = Matches(training_.ErrorsSoFar(), "Control service: (http://[^\\s]*)").at(0);
    // Requests are taken from the beginning, but the status has values after an iteration only.
    EXPECT_TRUE(
        Eventually([&] { return Ctl({"status"}).output.find("training") != std::string::npos; }));
  }

  CommandResult Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ctl", "--control=" + url_.substr(7)});
    return Millrace(arguments);
  }
  Process& training() { return training_; }
  const std::string& url() const { return url_; }
  Workspace& work() { return work_; }

 private:
  static caffe::SolverParameter Endless() {
    return Workspace::Tested(Workspace::Solver(100'000'000), 1'000'000);
  }

  Workspace work_;
  Process training_;
  std::string url_;
};

TEST(Control, HoldsARunInHand) {
  ControlledRun run;
  EXPECT_TRUE(MatchesWhole(run.Ctl({"pause"}).output, "paused at iteration \\d+\n"));
  EXPECT_CONTAINS(run.Ctl({"status"}).output, "paused, iteration ");
  const CommandResult tested = run.Ctl({"test"});
  EXPECT_TRUE(MatchesWhole(tested.output, "test net #0 at iteration \\d+: .* = .*\n"))
      << tested.output;
  const CommandResult saved = run.Ctl({"snapshot"});
  const std::string state = Matches(saved.output, "snapshot: (.*)\n").at(0);
  EXPECT_TRUE(FileExists(state)) << saved.output;
  EXPECT_EQ(run.Ctl({"rate", "0.125"}).status, 0);
  EXPECT_EQ(run.Ctl({"resume"}).status, 0);
  EXPECT_TRUE(Eventually(
      [&] { return run.Ctl({"status"}).output.find("learning rate 0.125") != std::string::npos; }));
  const CommandResult json = run.Ctl({"status", "--json"});
  EXPECT_CONTAINS(json.output, "\"set_learning_rate\":0.125");
  EXPECT_CONTAINS(json.output, "\"snapshot\":\"" + state);
  EXPECT_CONTAINS(run.Ctl({"metrics"}).output, "millrace_run_learning_rate");
  EXPECT_EQ(run.Ctl({"stop"}).output, "the run has ended\n");
  const CommandResult result = run.training().Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "Optimization stopped early.");
}

// What a script does with curl alone.
TEST(Control, SpeaksWithCurl) {
  ControlledRun run;
  const auto curl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/python3", "-c", R"(
import sys, urllib.request
method, url, token, body = sys.argv[1:5]
headers = {'Authorization': 'Bearer ' + token} if token else {}
request = urllib.request.Request(url, method=method, headers=headers, data=body.encode() or None)
try:
    print(urllib.request.urlopen(request).read().decode(), end='')
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode(), end=''))"});
    return test::Run(arguments).output;
  };
  const std::string token = Matches(run.Ctl({"token"}).output, "([0-9a-f]{64})\n").at(0);
  const std::string read_token = Matches(run.Ctl({"read-token"}).output, "([0-9a-f]{64})\n").at(0);
  EXPECT_CONTAINS(curl({"GET", run.url() + "/v1/status", "", ""}), "\"state\":\"training\"");
  EXPECT_CONTAINS(curl({"GET", run.url() + "/status.json", "", ""}), "\"progressPercentage\":0");
  EXPECT_CONTAINS(curl({"GET", run.url() + "/metrics", "", ""}), "millrace_run_iteration ");
  EXPECT_CONTAINS(curl({"POST", run.url() + "/v1/stop", "", ""}), "401 ");
  EXPECT_CONTAINS(curl({"POST", run.url() + "/v1/stop", read_token, ""}), "403 ");
  EXPECT_EQ(curl({"POST", run.url() + "/v1/learning_rate", token, "{\"rate\":0}"}), "{}\n");
  EXPECT_EQ(curl({"POST", run.url() + "/v1/stop", token, ""}), "{}\n");
  EXPECT_EQ(run.training().Wait().status, 0);
}

TEST(Control, PrintsEvents) {
  ControlledRun run;
  Process events(Command({"ctl", "events", "--json", "--control=" + run.url().substr(7)}));
  EXPECT_EQ(run.Ctl({"snapshot"}).status, 0);
  EXPECT_EQ(run.Ctl({"stop"}).status, 0);
  run.training().Wait();
  const CommandResult result = events.Wait();
  EXPECT_CONTAINS(result.output, "{\"event\":\"state\",\"status\":{");
  EXPECT_CONTAINS(result.output, "{\"event\":\"snapshot\",\"status\":{");
  EXPECT_CONTAINS(result.output, "\"state\":\"ended\"");
}

TEST(Control, RefusesInOneLine) {
  ExpectOneLine(Millrace({"ctl"}), {"ctl without an action: expected one of status, pause"});
  ExpectOneLine(Millrace({"ctl", "halt"}), {"ctl halt: expected one of status"});
  ExpectOneLine(Millrace({"ctl", "rate"}), {"ctl rate: 0 arguments given"});
  ExpectOneLine(Millrace({"ctl", "rate", "fast", "--control=1"}),
                {"ctl rate fast: expected a number"});
  ExpectOneLine(Millrace({"ctl", "status", "--control=a b"}),
                {"\"a b\" given, expected host:port"});
  ExpectOneLine(Millrace({"ctl", "status", "--control=127.0.0.1:1"}),
                {"control service at 127.0.0.1:1: Connection refused"});
  Workspace work;
  ExpectOneLine(Millrace({"train", "--solver=" + work.Write("run", Workspace::Solver(5)),
                          "--control=0.0.0.0:0"}),
                {"other machines can reach this address, expected a key_file"});
}

// The soft limit of file descriptors, of this process and those that it starts.
class FileLimit {
 public:
  explicit FileLimit(rlim_t wanted) {
    getrlimit(RLIMIT_NOFILE, &before_);
    Set(wanted);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  void Set(rlim_t wanted) {
    limit_ = std::min(wanted, before_.rlim_max);
    const rlimit limit{limit_, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlim_t limit() const { return limit_; }

 private:
  rlimit before_ = {};
  rlim_t limit_ = 0;
};

constexpr size_t kIdle = 10'000;

// Connections that never send anything.
class IdleConnections {
 public:
  IdleConnections(const std::string& url, size_t count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < count; ++i) {
      FileDescriptor each(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(each.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
        ADD_FAILURE() << "connection " << i << ": " << ErrnoText(errno);
        return;
      }
      sockets_.push_back(std::move(each));
    }
  }
  // Returns how many the other end has not closed.
  size_t open() const {
    return static_cast<size_t>(std::count_if(sockets_.begin(), sockets_.end(), [](auto& each) {
      char byte = 0;
      return recv(each.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    }));
  }

 private:
  std::vector<FileDescriptor> sockets_;
};

std::string MetricsText(const ControlledRun& run) {
  return SendHttp({}, *ParseHttpAddress(run.url().substr(7)), {.target = "/metrics"}).body;
}

// A metric by its name, and labels as a regular expression; -1: there is none.
double MetricOf(const ControlledRun& run, const std::string& name) {
  const std::vector<std::string> values = Matches(MetricsText(run), "\\n" + name + " ([0-9.e+]+)");
  return values.size() == 1 ? std::stod(values[0]) : -1;
}

// The run trains on, serves later clients, and has `held` of the connections, with those in use.
void ExpectToHold(ControlledRun* run, const IdleConnections& idle, size_t held) {
  constexpr size_t kInUse = 20;  // by the requests of this test
  const std::string closed = "millrace_control_connections_closed_total\\{reason=\"replaced\"\\}";
  EXPECT_TRUE(Eventually([&] {
    const double open = MetricOf(*run, "millrace_control_connections");
    const double replaced = MetricOf(*run, closed);
    return open >= static_cast<double>(held - kInUse) && open <= static_cast<double>(held) + 1 &&
           replaced >= static_cast<double>(kIdle - held);
  })) << MetricsText(*run);
  EXPECT_LE(idle.open(), held);
  EXPECT_GE(idle.open(), held - kInUse);
  const double before = MetricOf(*run, "millrace_run_iterations_here_total");
  EXPECT_GE(before, 1);
  EXPECT_TRUE(Eventually(
      [&] { return MetricOf(*run, "millrace_run_iterations_here_total") > before + 20; }));
  EXPECT_CONTAINS(run->Ctl({"status"}).output, "training");
  EXPECT_EQ(run->Ctl({"rate", "0.125"}).status, 0);
}

TEST(Control, TrainsOnBesideTenThousandIdleConnections) {
  FileLimit files(2 * kIdle + 4096);
  if (files.limit() < 2 * kIdle) {
    GTEST_SKIP() << "the limit of file descriptors is " << files.limit() << ", not " << 2 * kIdle;
  }
  ControlledRun run;
  {
    const IdleConnections idle(run.url(), kIdle);
    ExpectToHold(&run, idle, kIdle);
  }
  EXPECT_TRUE(Eventually([&] { return MetricOf(run, "millrace_control_connections") < 10; }));
  EXPECT_EQ(run.Ctl({"stop"}).status, 0);
}

// With the usual limit of file descriptors there are 512 connections.
TEST(Control, HoldsAsManyConnectionsAsFileDescriptorsAllow) {
  FileLimit files(1024);
  ControlledRun run;
  files.Set(kIdle + 4096);
  if (files.limit() < kIdle + 500) {
    GTEST_SKIP() << "the limit of file descriptors is " << files.limit() << ", not " << kIdle + 500;
  }
  const IdleConnections idle(run.url(), kIdle);
  ExpectToHold(&run, idle, 512);
  EXPECT_EQ(run.Ctl({"stop"}).status, 0);
}

}  // namespace
}  // namespace millrace::test
