// Programs that read Caffe's logs read those of a training here. Caffe's own parsers run where they
// are installed; besides, their steps and expressions, and those of others, are followed here.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "test/support/cluster_of_nodes.h"
#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

const char kNumber[] = R"([\.\deE+-]+)";
constexpr int kIterations = 40, kTestInterval = 10, kDisplay = 5;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Grep(const std::vector<std::string>& lines, const std::string& part) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

// The word number `index`, from 1, as awk's $index.
std::string Word(const std::string& line, int index) {
  std::istringstream words(line);
  std::string word;
  for (int i = 0; i < index; ++i) words >> word;
  return word;
}

// Seconds in the year 2000, from "I1123 15:41:36.381747", as extract_seconds.py reads them: month
// and day from fixed columns.
double SecondsOf(const std::string& line) {
  const std::string date = Word(line, 1), time = Word(line, 2);
  std::tm parts{};
  parts.tm_year = 100;
  parts.tm_mon = std::stoi(date.substr(1, 2)) - 1;
  parts.tm_mday = std::stoi(date.substr(3));
  parts.tm_hour = std::stoi(time.substr(0, 2));
  parts.tm_min = std::stoi(time.substr(3, 2));
  parts.tm_sec = std::stoi(time.substr(6, 2));
  EXPECT_LE(parts.tm_mon, 11) << line;
  EXPECT_LE(parts.tm_mday, 31) << line;
  return static_cast<double>(timegm(&parts)) + std::stod("0" + time.substr(time.rfind('.')));
}

struct Row {
  int64_t iteration;
  double seconds, rate;
  std::map<std::string, double> outputs;
};

// Rows as parse_log.py makes them: the outputs after an iteration belong to it.
std::vector<Row> RowsOf(const std::string& log, const std::string& phase) {
  const std::string output = phase + R"( net output #(\d+): (\S+) = ()" + kNumber + ")";
  std::vector<Row> rows;
  double start = -1, rate = NAN;
  int64_t iteration = -1;
  for (const std::string& line : LinesOf(log)) {
    if (start < 0) {
      if (line.find("Solving") != std::string::npos) start = SecondsOf(line);
      continue;
    }
    if (const auto found = Matches(line, R"(Iteration (\d+))"); !found.empty()) {
      iteration = std::stoll(found[0]);
    }
    if (iteration < 0) continue;
    const double seconds = SecondsOf(line) - start;
    if (const auto found = Matches(line, R"(lr = ([-+]?[0-9]*\.?[0-9]+([eE]?[-+]?[0-9]+)?))");
        !found.empty()) {
      rate = std::stod(found[0]);
    }
    const auto names = Matches(line, output, 2);
    if (names.empty()) continue;
    if (rows.empty() || rows.back().iteration != iteration) {
      rows.push_back({iteration, seconds, rate, {}});
    }
    rows.back().outputs[names[0]] = std::stod(Matches(line, output, 3)[0]);
  }
  return rows;
}

class LogParsers : public testing::TestWithParam<int> {  // solvers
 protected:
  LogParsers() {
    caffe::SolverParameter solver =
        Workspace::Tested(Workspace::Solver(kIterations), kTestInterval);
    solver.set_display(kDisplay);
    run_ =
        Millrace({"train", "--solver=" + work_.Write("run", solver), StrCat("--cpu=", GetParam())});
    EXPECT_EQ(run_.status, 0) << run_.errors;
    WriteFile(path_, run_.errors);
  }
  // Numbers 0, step, 2 step and so on.
  static std::set<int64_t> Multiples(int64_t step, int64_t end) {
    std::set<int64_t> all;
    for (int64_t i = 0; i < end; i += step) all.insert(i);
    return all;
  }
  static std::set<int64_t> IterationsOf(const std::vector<Row>& rows) {
    std::set<int64_t> all;
    for (const Row& row : rows) EXPECT_TRUE(all.insert(row.iteration).second) << row.iteration;
    return all;
  }

  Workspace work_;
  CommandResult run_;
  const std::string path_ = work_ / "run.log";
};

TEST_P(LogParsers, TablesOfParseLogPy) {
  const std::vector<Row> train = RowsOf(run_.errors, "Train"), test = RowsOf(run_.errors, "Test");
  EXPECT_EQ(IterationsOf(train), Multiples(kDisplay, kIterations));
  EXPECT_EQ(IterationsOf(test), Multiples(kTestInterval, kIterations + 1));
  for (const Row& row : train) {
    EXPECT_EQ(row.outputs.size(), 1u) << row.iteration;
    EXPECT_TRUE(row.outputs.contains("loss")) << row.iteration;
    EXPECT_GE(row.seconds, 0);
    EXPECT_LT(row.seconds, 600);
  }
  for (const Row& row : test) {
    EXPECT_EQ(row.outputs.size(), 2u) << row.iteration;
    EXPECT_TRUE(row.outputs.contains("accuracy") && row.outputs.contains("loss")) << row.iteration;
    EXPECT_TRUE(row.iteration <= kTestInterval || std::abs(row.rate - 0.05) < 1e-9) << row.rate;
  }
}

// The columns that parse_log.sh takes with awk.
TEST_P(LogParsers, ColumnsOfParseLogSh) {
  const std::vector<std::string> lines = LinesOf(run_.errors);
  EXPECT_EQ(Grep(lines, "] Solving ").size(), 1u);
  const std::vector<std::string> losses = Grep(lines, ", loss = ");
  EXPECT_EQ(losses.size(), kIterations / kDisplay + 1u);
  for (const std::string& line : losses) {
    EXPECT_EQ(Matches(line, R"(Iteration (\d+))").size(), 1u) << line;
    const std::string after = line.substr(line.find('=') + 1);  // awk -F =
    EXPECT_TRUE(MatchesWhole(after.substr(0, after.find('=')), std::string(" ") + kNumber)) << line;
  }
  const std::vector<std::string> rates = Grep(lines, ", lr = ");
  EXPECT_EQ(rates.size(), kIterations / kDisplay + 0u);
  for (const std::string& line : rates) EXPECT_TRUE(MatchesWhole(Word(line, 9), kNumber)) << line;
  for (const char* output : {"Test net output #0", "Test net output #1"}) {
    const std::vector<std::string> found = Grep(lines, output);
    EXPECT_EQ(found.size(), Grep(lines, "Testing net").size());
    for (const std::string& line : found)
      EXPECT_TRUE(MatchesWhole(Word(line, 11), kNumber)) << line;
  }
  // Between the line of a test and its outputs there is no line of another iteration.
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("Testing net") == std::string::npos) continue;
    size_t next = i + 1;
    while (next < lines.size() && lines[next].find("Test net output #0") == std::string::npos) {
      EXPECT_EQ(lines[next].find("Iteration"), std::string::npos) << lines[next];
      ++next;
    }
    EXPECT_LT(next, lines.size()) << lines[i];
  }
}

// NVIDIA DIGITS splits each line into level, time and message, and matches at the message's begin.
TEST_P(LogParsers, MessagesOfDigits) {
  const std::string number = "(NaN|[-+]?[0-9]*\\.?[0-9]+(e[-+]?[0-9]+)?)";
  std::map<std::string, int> counts;
  for (const std::string& line : LinesOf(run_.errors)) {
    const auto messages = Matches(line, R"(^(\w)(\d{4} \S{8}).*\]\s+(\S.*)$)", 3);
    ASSERT_EQ(messages.size(), 1u) << line;
    const std::pair<const char*, std::string> kinds[] = {
        {"iteration", R"(^Iteration (\d+))"},
        {"output", R"(^(Train|Test) net output #(\d+): (\S*) = )" + number},
        {"rate", R"(^Iteration (\d+), lr = )" + number},
        {"snapshot", R"(^Snapshotting to (.*)\s*$)"},
        {"state", "^Snapshotting solver state"}};
    for (const auto& [kind, pattern] : kinds) {
      counts[kind] += static_cast<int>(Matches(messages[0], pattern, 0).size());
    }
  }
  const int displays = kIterations / kDisplay, tests = kIterations / kTestInterval + 1;
  EXPECT_EQ(counts["iteration"], 2 * displays + 1 + tests);
  EXPECT_EQ(counts["output"], displays + 2 * tests);
  EXPECT_EQ(counts["rate"], displays);
  EXPECT_EQ(counts["snapshot"], 1);
  EXPECT_EQ(counts["state"], 1);
}

// Many plotting scripts look for a test's line, then collect its outputs in order; a smaller
// iteration begins another run.
TEST_P(LogParsers, TestsOfPlottingScripts) {
  int64_t iteration = -1;
  std::vector<std::string> outputs;
  std::map<int64_t, std::vector<std::string>> tests;
  for (const std::string& line : LinesOf(run_.errors)) {
    const auto begun = Matches(line, R"(Iteration (\d+), Testing net \(#(\d+)\))");
    if (!begun.empty()) {
      // Several solvers may end tests in another order than that of their iterations.
      if (GetParam() == 1) {
        EXPECT_GT(std::stoll(begun[0]), iteration);
      }
      iteration = std::stoll(begun[0]);
    }
    for (const std::string& index : Matches(line, R"(Test net output #(\d+): (\w+) = ([\d.]+))")) {
      tests[iteration].push_back(index);
    }
  }
  EXPECT_EQ(tests.size(), kIterations / kTestInterval + 1u);
  for (const auto& [at, indices] : tests) {
    EXPECT_EQ(indices, (std::vector<std::string>{"0", "1"})) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, LogParsers, testing::Values(1, 3));

// Each node logs the iterations that its solvers make, and the tests that it reports.
class LogParsersInACluster : public ClusterOfNodes {
 protected:
  LogParsersInACluster() {
    size_ = 2;
    WriteFile(work_ / "topology.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' solvers: 2 }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
    // Iterations that last as long as an exchange, so that the nodes learn together.
    SmallNet net = work_.Net();
    net.batch = 256;
    work_.WriteNet(net);
  }
};

TEST_F(LogParsersInACluster, TablesOfEachNode) {
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(2000), 500);
  // Short steps, so that the last test is not worse than the one before.
  solver.set_base_lr(0.01f);
  solver.set_display(20);
  solver.set_snapshot_prefix(work_ / "run");
  StartAll(solver);
  std::set<int64_t> tested;
  size_t displayed = 0;
  for (int i = 0; i < 2; ++i) {
    const std::string log = Finish(i).errors;
    for (const Row& row : RowsOf(log, "Train")) {
      EXPECT_EQ(row.outputs.size(), 1u) << row.iteration;
      ++displayed;
    }
    for (const Row& row : RowsOf(log, "Test")) {
      EXPECT_EQ(row.outputs.size(), 2u) << row.iteration;
      EXPECT_EQ(row.iteration % 500, 0);
      EXPECT_TRUE(tested.insert(row.iteration).second) << row.iteration;
    }
    EXPECT_EQ(Matches(log, R"(\] (Iteration 2000, loss = [\.\deE+-]+)\n)").size(), 1u) << log;
  }
  EXPECT_TRUE(tested.contains(2000));
  EXPECT_GT(displayed, 50u);
}

// Caffe's tools/extra: of $CAFFE_ROOT, or of an installed package.
std::string ParserFolder() {
  const char* const root = std::getenv("CAFFE_ROOT");
  for (const std::string& folder :
       {root ? std::string(root) + "/tools/extra" : "", std::string("/usr/share/caffe/tools/extra"),
        std::string("/usr/share/doc/caffe-doc/tools/extra"),
        std::string("/usr/lib/caffe/tools/extra")}) {
    if (!folder.empty() && FileExists(folder + "/parse_log.py")) return folder;
  }
  return "";
}

class CaffesParsers : public LogParsers {
 protected:
  void SetUp() override {
    const std::string folder = ParserFolder();
    if (folder.empty()) GTEST_SKIP() << "no tools/extra/parse_log.py: set CAFFE_ROOT";
    std::filesystem::create_directory(work_ / "extra");
    for (const char* name : {"extract_seconds.py", "parse_log.py", "parse_log.sh"}) {
      std::filesystem::copy(folder + "/" + name, work_ / "extra");
    }
    // Its only line that Python 3 does not read.
    std::string text = ReadFile(work_ / "extra/parse_log.py");
    const std::string old = "print 'Wrote %s' % output_filename";
    if (const size_t at = text.find(old); at != std::string::npos) {
      text.replace(at, old.size(), "print('Wrote %s' % output_filename)");
    }
    WriteFile(work_ / "extra/parse_log.py", text);
    // parse_log.sh runs extract_seconds.py with the interpreter "python".
    std::filesystem::create_directory(work_ / "bin");
    const CommandResult python = test::Run({"/bin/sh", "-c", "command -v python3"});
    if (python.status != 0) GTEST_SKIP() << "no python3";
    std::filesystem::create_symlink(python.output.substr(0, python.output.find('\n')),
                                    work_ / "bin/python");
  }
  CommandResult InFolder(const std::string& command) {
    return test::Run(
        {"/bin/sh", "-c", "cd '" + (work_ / "") + "' && PATH=\"$PWD/bin:$PATH\" && " + command});
  }
};

TEST_P(CaffesParsers, ReadTheLog) {
  const CommandResult python = InFolder("python3 extra/parse_log.py run.log .");
  ASSERT_EQ(python.status, 0) << python.errors;
  const std::vector<std::string> train = LinesOf(ReadFile(work_ / "run.log.train"));
  const std::vector<std::string> test = LinesOf(ReadFile(work_ / "run.log.test"));
  ASSERT_EQ(train.size(), kIterations / kDisplay + 1u);
  ASSERT_EQ(test.size(), kIterations / kTestInterval + 2u);
  EXPECT_CONTAINS(train[0], "NumIters,Seconds,LearningRate,loss");
  EXPECT_CONTAINS(test[0], "NumIters,Seconds,LearningRate,accuracy,loss");
  for (size_t i = 1; i < train.size(); ++i) {
    EXPECT_TRUE(MatchesWhole(train[i], R"(\d+\.0,\d+\.\d+,0\.05,[\d.e+-]+\r?)")) << train[i];
  }
  EXPECT_TRUE(test.back().starts_with("40.0,")) << test.back();

  if (InFolder("command -v column").status != 0) return;  // parse_log.sh needs it
  const CommandResult shell = InFolder("chmod +x extra/*.py && bash extra/parse_log.sh run.log");
  ASSERT_EQ(shell.status, 0) << shell.errors;
  EXPECT_EQ(shell.errors, "");
  const std::vector<std::string> table = LinesOf(ReadFile(work_ / "run.log.test"));
  ASSERT_EQ(table.size(), kIterations / kTestInterval + 2u);
  for (size_t i = 1; i < table.size(); ++i) {
    EXPECT_TRUE(MatchesWhole(table[i], R"(\d+ +\d+\.\d+ +[\d.]+ +[\d.]+)")) << table[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, CaffesParsers, testing::Values(1, 3));

}  // namespace
}  // namespace millrace::test
