// The log has the format that scripts for Caffe's logs expect, and its numbers are consistent.
#include <sstream>

#include "metrics/metrics_writer.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// Patterns of Caffe's own log parser.
const char kIteration[] = R"(Iteration (\d+))";
const char kTestOutput[] = R"(Test net output #(\d+): (\S+) = ([\.\deE+-]+))";
const char kTrainOutput[] = R"(Train net output #(\d+): (\S+) = ([\.\deE+-]+))";
const char kRate[] = R"(lr = ([-+]?[0-9]*\.?[0-9]+([eE]?[-+]?[0-9]+)?))";

class Log : public testing::Test {
 protected:
  Log() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(20), 10);
    solver.set_display(5);
    solver.set_lr_policy("step");
    solver.set_gamma(0.1f);
    solver.set_stepsize(10);
    solver.set_snapshot(10);
    run_ = Millrace(
        {"train", "--solver=" + work_.Write("run", solver), "--metrics=" + work_ / "run.jsonl"});
    EXPECT_EQ(run_.status, 0) << run_.errors;
  }
  // Lines that contain `part`.
  std::vector<std::string> Lines(const std::string& part) const {
    std::vector<std::string> lines;
    std::istringstream stream(run_.errors);
    for (std::string line; std::getline(stream, line);) {
      if (line.find(part) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  Workspace work_;
  CommandResult run_;
};

TEST_F(Log, HoldsLogLinesOnly) { EXPECT_TRUE(PlainLines(run_.errors).empty()) << run_.errors; }

// As those of Caffe's glog, without the year.
TEST_F(Log, LinesBeginAsCaffesDo) {
  const char prefix[] = R"([IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d{6} +\d+ \S+:\d+\] .*)";
  std::istringstream stream(run_.errors);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_TRUE(MatchesWhole(line, prefix)) << line;
  }
}

TEST_F(Log, IterationsLossesAndRatesParse) {
  std::vector<std::string> iterations;
  for (const std::string& line : Lines(", loss = ")) {
    iterations.push_back(Matches(line, kIteration).at(0));
    EXPECT_EQ(Matches(line, R"(loss = ([\.\deE+-]+)$)").size(), 1u) << line;
    if (iterations.back() == "20") continue;
    EXPECT_EQ(
        Matches(line, R"(Iteration \d+ \(([\.\deE+-]+) iter/s, [\.\deE+-]+s/\d+ iters\))").size(),
        1u)
        << line;
  }
  EXPECT_EQ(iterations, (std::vector<std::string>{"0", "5", "10", "15", "20"}));
  EXPECT_EQ(Matches(run_.errors, R"(\] (Iteration 20, loss = [\.\deE+-]+)\n)").size(), 1u);
  std::vector<double> rates;
  for (const std::string& rate : Matches(run_.errors, kRate)) rates.push_back(std::stod(rate));
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_NEAR(rates[1], 0.05, 1e-9);
  EXPECT_NEAR(rates[2], 0.005, 1e-9);
}

TEST_F(Log, TrainAndTestOutputsParseAndNameTheirBlobs) {
  EXPECT_EQ(Matches(run_.errors, kTrainOutput, 2), std::vector<std::string>(4, "loss"));
  EXPECT_EQ(Matches(run_.errors, kTestOutput, 2),
            (std::vector<std::string>{"accuracy", "loss", "accuracy", "loss", "accuracy", "loss"}));
  EXPECT_EQ(Matches(run_.errors, kTestOutput, 1),
            (std::vector<std::string>{"0", "1", "0", "1", "0", "1"}));
  for (const std::string& line : Lines("output #1: loss")) {
    const double value = std::stod(Matches(line, R"(loss = ([\.\deE+-]+) \(\*)").at(0));
    const double weighed = std::stod(Matches(line, R"(\(\* 1 = ([\.\deE+-]+) loss\))").at(0));
    EXPECT_EQ(value, weighed) << line;
  }
}

TEST_F(Log, ATestIsAnnouncedWithItsIterationBeforeItsOutputs) {
  EXPECT_EQ(Matches(run_.errors, R"(Iteration (\d+), Testing net \(#0\))"),
            (std::vector<std::string>{"0", "10", "20"}));
}

// The parsers take the time of the first line with "Solving" for the beginning.
TEST_F(Log, BeginsAndEndsAsCaffes) {
  const char* const lines[] = {"] Use CPU.\n",
                               "] Creating training net from net file: ",
                               "] Creating test net (#0) specified by net file: ",
                               "] Solver scaffolding done.\n",
                               "] Starting Optimization\n",
                               "] Solving small\n",
                               "] Learning Rate Policy: step\n",
                               "] Iteration 0, Testing net (#0)\n",
                               "] Iteration 0 (",
                               "] Iteration 0, lr = 0.05\n",
                               "] Iteration 15, lr = ",
                               "] Snapshotting to binary proto file ",
                               "] Snapshotting solver state to binary proto file ",
                               "] Iteration 20, loss = ",
                               "] Iteration 20, Testing net (#0)\n",
                               "]     Test net output #0: accuracy = ",
                               "] Optimization Done.\n"};
  size_t at = 0;
  for (const char* line : lines) {
    const size_t found = run_.errors.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " in " << run_.errors;
    at = found;
  }
  EXPECT_EQ(run_.errors.find("Solving"), run_.errors.find("Solving small\n"));
}

TEST_F(Log, SaysWhichFilesItSnapshots) {
  EXPECT_EQ(Lines("Snapshotting to binary proto file " + work_.Snapshot("run", 10) + ".caffemodel")
                .size(),
            1u);
  EXPECT_EQ(Lines("Snapshotting solver state to binary proto file " + work_.Snapshot("run", 20) +
                  ".solverstate")
                .size(),
            1u);
  EXPECT_EQ(Lines("Optimization Done.").size(), 1u);
}

TEST_F(Log, AgreesWithTheMetrics) {
  std::vector<std::string> logged = Matches(run_.errors, R"(iters\), loss = ([\.\deE+-]+))");
  size_t next = 0;
  for (const MetricsRow& row : ReadMetrics(work_ / "run.jsonl")) {
    if (!row.has_train()) continue;
    EXPECT_NEAR(std::stod(logged.at(next++)), row.train().loss(), 1e-5);
  }
  EXPECT_EQ(next, logged.size());
}

TEST_F(Log, TheResultGoesToStdout) {
  const std::vector<std::string> accuracies = Matches(run_.output, R"(accuracy = ([\.\d]+)\n)");
  ASSERT_EQ(accuracies.size(), 1u) << run_.output;
  EXPECT_NEAR(std::stod(accuracies[0]),
              std::stod(Matches(run_.errors, R"(output #0: accuracy = (\S+))").back()), 1e-4);
  EXPECT_CONTAINS(run_.output, "model saved: " + work_.Snapshot("run", 20) + ".caffemodel");
}

TEST_F(Log, TestGivesTheAccuracyOfTheRunsLastTest) {
  const CommandResult test =
      Millrace({"test", "--model=" + work_ / "net.prototxt", "--iterations=2",
                "--weights=" + work_.Snapshot("run", 20) + ".caffemodel"});
  ASSERT_EQ(test.status, 0) << test.errors;
  const MetricsRow last = ReadMetrics(work_ / "run.jsonl").back();
  for (const char* output : {"accuracy", "loss"}) {
    const auto printed = Matches(test.output, std::string(output) + R"( = (\S+)\n)");
    ASSERT_EQ(printed.size(), 1u) << test.output;
    const double expected = last.test().outputs().at(output);
    EXPECT_NEAR(std::stod(printed[0]), expected, 1e-5 * std::max(1.0, expected));
  }
  EXPECT_EQ(Matches(test.errors, R"(Batch (\d+), accuracy = )"),
            (std::vector<std::string>{"0", "1"}));
}

}  // namespace
}  // namespace millrace::test
