// `millrace serve-data` and trainings that take their batches from it.
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control/http_client.h"
#include "data/data_service.h"
#include "proto/parse.h"
#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/eventually.h"
#include "test/support/problem.h"
#include "test/support/support.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// The weights of a model, without the text of its net.
std::string WeightsIn(const std::string& snapshot) {
  caffe::NetParameter model;
  LoadBinary(snapshot + ".caffemodel", "model", &model);
  std::string weights;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (const caffe::BlobProto& blob : layer.blobs()) weights += blob.SerializeAsString();
  }
  return weights;
}

// A service in a process of its own.
class ServeDataProcess {
 public:
  explicit ServeDataProcess(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {Binary(), "serve-data", "--threads=2"});
    process_ = std::make_unique<Process>(flags);
  }
  // What workers give as their source.
  std::string Address() {
    EXPECT_TRUE(Eventually([&] { return !AddressInLog().empty(); })) << process_->ErrorsSoFar();
    return AddressInLog();
  }
  // Ends it as Ctrl-C does.
  CommandResult Finish() {
    process_->Signal(SIGINT);
    return process_->Wait();
  }
  Process& process() { return *process_; }

 private:
  // The address in the log; "" before it is there.
  std::string AddressInLog() const {
    const std::string log = process_->ErrorsSoFar(), text = "Serves ";
    const size_t begin = log.find(text), end = log.find('\n', begin);
    if (begin == log.npos || end == log.npos) return "";
    return log.substr(begin + text.size(), end - begin - text.size());
  }

  std::unique_ptr<Process> process_;
};

CommandResult Train(const std::string& solver, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {Binary(), "train", "--solver=" + solver};
  command.insert(command.end(), more.begin(), more.end());
  return test::Run(command);
}

class ServeData : public testing::Test {
 protected:
  ServeData() {
    net_ = work_.Net();
    net_.data_fields = "shuffle: true";
    net_.transform_fields = "crop_size: 7 mirror: true";
    work_.WriteNet(net_);
    served_ = {"--model=" + (work_ / "net.prototxt"), "--listen=127.0.0.1:0", "--seed=7"};
  }
  // A solver whose train net takes the service's batches, and whose test net reads by itself.
  std::string Served(const std::string& name, const std::string& address, int iterations) {
    SmallNet net = net_;
    net.train_sources = {address};
    net.data_fields = "";
    WriteFile(work_ / (name + "_net.prototxt"), net.Text());
    caffe::SolverParameter solver = Workspace::Solver(iterations);
    solver.set_net(work_ / (name + "_net.prototxt"));
    return work_.Write(name, solver);
  }

  Workspace work_;
  SmallNet net_;
  std::vector<std::string> served_;
};

TEST_F(ServeData, ATrainingGivesTheWeightsOfLocalReadingBitForBit) {
  const CommandResult local = Train(work_.Write("local", Workspace::Solver(40)));
  ASSERT_EQ(local.status, 0) << local.errors;
  ServeDataProcess service(served_);
  const CommandResult served = Train(Served("served", service.Address(), 40));
  ASSERT_EQ(served.status, 0) << served.errors;
  EXPECT_EQ(WeightsIn(work_.Snapshot("served", 40)), WeightsIn(work_.Snapshot("local", 40)));
  const CommandResult result = service.Finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "of which workers trained on 4");
}

TEST_F(ServeData, AResumedTrainingEndsWithTheWeightsOfTheUninterruptedOne) {
  served_.push_back("--state=" + (work_ / "state"));
  std::string address;
  {
    ServeDataProcess service(served_);
    address = service.Address();
    const CommandResult whole = Train(Served("whole", address, 30));
    ASSERT_EQ(whole.status, 0) << whole.errors;
    service.Finish();
  }
  std::filesystem::remove(work_ / "state");
  {
    ServeDataProcess service(served_);
    caffe::SolverParameter solver = Workspace::Solver(20);
    const std::string file = Served("half", service.Address(), 20);
    ASSERT_EQ(Train(file).status, 0);
    service.process().Signal(SIGKILL);
  }
  ServeDataProcess service(served_);
  const CommandResult rest = Train(Served("rest", service.Address(), 30),
                                   {"--snapshot=" + (work_.Snapshot("half", 20) + ".solverstate")});
  ASSERT_EQ(rest.status, 0) << rest.errors;
  EXPECT_EQ(WeightsIn(work_.Snapshot("rest", 30)), WeightsIn(work_.Snapshot("whole", 30)));
}

TEST_F(ServeData, TakesASourceWithoutANet) {
  ServeDataProcess service({"--source=" + (work_ / "train_lmdb"), "--batch_size=8",
                            "--transform=scale: 0.00390625", "--listen=127.0.0.1:0",
                            "--name=images"});
  const std::string address = service.Address();
  EXPECT_CONTAINS(address, "/images");
  const CommandResult trained = Train(Served("served", address + "?memory=off", 5));
  // The layer has a transform_param of its own, which is another one.
  EXPECT_EQ(trained.status, 1);
  EXPECT_CONTAINS(trained.errors, "transform_param: is {");
  EXPECT_EQ(PlainLines(trained.errors).size(), 1u) << trained.errors;
}

TEST_F(ServeData, TellsItsMetricsAndStatusByHttp) {
  served_.push_back("--control=0");
  ServeDataProcess service(served_);
  const CommandResult trained = Train(Served("served", service.Address(), 10));
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const std::string before = "Metrics and status: http://";
  ASSERT_TRUE(WaitForLog(service.process(), before));
  const std::string url = Matches(service.process().ErrorsSoFar(), before + "([^\\s]*)").at(0);
  const auto get = [&](HttpRequest request) {
    return SendHttp({}, *ParseHttpAddress(url), std::move(request));
  };
  const auto text = [&] { return get({.target = "/metrics"}).body; };
  const auto consumed = [&] {
    return Matches(text(), "millrace_batches_consumed_total\\{service=\"train\"\\} ([0-9]+)\n");
  };
  EXPECT_TRUE(Eventually([&] { return std::stoi(consumed().at(0)) >= 10; })) << text();
  EXPECT_CONTAINS(text(), "millrace_batches_sent_total{service=\"train\",way=\"memory\"} ");
  EXPECT_CONTAINS(text(), "millrace_build_info{version=");
  EXPECT_CONTAINS(text(), "process_cpu_seconds_total ");
  EXPECT_CONTAINS(
      get({.target = "/metrics", .headers = {{"accept", "application/openmetrics-text"}}}).body,
      "# EOF");
  EXPECT_CONTAINS(get({.target = "/v1/metrics"}).body, "millrace_batches_workers");
  const std::string status = get({.target = "/v1/status"}).body;
  for (const char* part : {"\"service\":\"train\"", "\"consumed\":1", "\"name\":\"images\"",
                           "\"waiting_workers\":0"}) {
    EXPECT_CONTAINS(status, part);
  }
  EXPECT_EQ(get({.method = "POST", .target = "/v1/status"}).status, 405);
  EXPECT_EQ(get({.target = "/v1/pause"}).status, 404);
  EXPECT_EQ(service.Finish().status, 0);
}

TEST_F(ServeData, RefusesWhatCannotBeServedInOneLine) {
  const auto error_of = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {Binary(), "serve-data"};
    command.insert(command.end(), flags.begin(), flags.end());
    const CommandResult result = test::Run(command);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(PlainLines(result.errors).size(), 1u) << result.errors;
    return result.errors;
  };
  const std::string model = served_[0];
  EXPECT_CONTAINS(error_of({}), "expected either --model or --source");
  EXPECT_CONTAINS(error_of({"--source=db"}), "--batch_size=0: expected at least 1");
  EXPECT_CONTAINS(error_of({"--source=none", "--batch_size=1"}), "none");
  EXPECT_CONTAINS(error_of({model, "--listen=0.0.0.0:0"}), "expected --key_file");
  EXPECT_CONTAINS(error_of({model, "--listen=here"}), "--listen=here: expected HOST:PORT");
  EXPECT_CONTAINS(error_of({model, "--listen=127.0.0.1:0", "--control=0.0.0.0:0"}),
                  "expected a key_file");
  EXPECT_CONTAINS(error_of({model, "--name=a/b"}), "--name=a/b: expected a name");
  EXPECT_CONTAINS(error_of({model, "--same", "--state=s"}), "expected neither --state");
  EXPECT_CONTAINS(error_of({model, "--worker_timeout=0"}), "--worker_timeout=0");
  EXPECT_CONTAINS(error_of({model, "--max_workers=0"}), "--max_workers=0");
  WriteFile(work_ / "empty.prototxt",
            "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }");
  EXPECT_CONTAINS(error_of({"--model=" + (work_ / "empty.prototxt")}), "has no data layer");
}

// A worker that writes the number of each batch to a file before the batch counts as trained on.
[[noreturn]] void WorkAsAProcess(const std::string& address, const std::string& file, int end) {
  std::ofstream out(file);
  try {
    DataService data{DataOptions{}};
    LayerInstance layer(LayerOf(StrCat("name: 'data' type: 'Data' top: 'x' top: 'y' data_param {",
                                       " source: '", address, "' prefetch: 2 }")),
                        &data);
    while (true) {
      layer.Forward();
      const int batch = static_cast<int>(layer.Values(1)[0]) / 4;
      if (batch >= end) break;
      out << batch << std::endl;
      layer.layer().EndIteration();
    }
  } catch (const std::exception& error) {
    out << error.what() << std::endl;
  }
  out.close();
  _exit(0);
}

std::vector<int> NumbersIn(const std::string& file) {
  std::ifstream in(file);
  std::vector<int> numbers;
  for (int number; in >> number;) numbers.push_back(number);
  EXPECT_TRUE(!in.is_open() || in.eof()) << file;
  return numbers;
}

TEST_F(ServeData, GivesEachBatchToOneOfThreeWorkersOfWhichOneIsKilled) {
  constexpr int kBatches = 400;
  WriteLabels(work_ / "numbers", (kBatches + 100) * 4);
  ServeDataProcess service({"--source=" + (work_ / "numbers"), "--batch_size=4",
                            "--listen=127.0.0.1:0", "--worker_timeout=1"});
  const std::string address = service.Address();
  std::vector<pid_t> workers;
  for (int i = 0; i < 3; ++i) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) WorkAsAProcess(address, work_ / StrCat("worker", i), kBatches);
    workers.push_back(pid);
  }
  ASSERT_TRUE(Eventually([&] { return NumbersIn(work_ / "worker0").size() > 20; }));
  kill(workers[0], SIGKILL);
  for (const pid_t pid : workers) waitpid(pid, nullptr, 0);
  std::map<int, int> times;
  for (int i = 0; i < 3; ++i) {
    for (const int batch : NumbersIn(work_ / StrCat("worker", i))) ++times[batch];
  }
  // The batch that the killed worker was training on may be twice.
  const int last_of_killed = NumbersIn(work_ / "worker0").back();
  const auto expect_once = [&] {
    for (const auto& [batch, count] : times) {
      EXPECT_LE(count, batch == last_of_killed ? 2 : 1) << batch;
    }
  };
  expect_once();
  // The others may have ended before they were given what the killed one held.
  EXPECT_TRUE(Eventually([&] {
    if (times.size() == kBatches) return true;
    const pid_t pid = fork();
    if (pid == 0) WorkAsAProcess(address, work_ / "last", kBatches);
    waitpid(pid, nullptr, 0);
    for (const int batch : NumbersIn(work_ / "last")) ++times[batch];
    return false;
  }));
  expect_once();
  EXPECT_EQ(service.Finish().status, 0);
}

}  // namespace
}  // namespace millrace::test
