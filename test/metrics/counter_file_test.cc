#include "millrace/metrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "metrics/counter_table.h"
#include "metrics/registry.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// `text` with every line reduced to printable characters.
std::string OneLinePerRow(const std::string& text) {
  std::istringstream lines(text);
  std::string shown;
  for (std::string line; std::getline(lines, line);) shown += OneLine(line) + "\n";
  return shown;
}

struct Number {
  std::string group;
  const char* name;
  double value;
};

// A reading of process 7.
CounterFileReading ReadingOf(const std::string& title, const std::vector<Number>& numbers) {
  CounterFileReading reading;
  reading.pid = 7;
  reading.user = geteuid();
  reading.title = title;
  for (const Number& each : numbers) {
    const auto family = static_cast<uint32_t>(reading.families.size());
    reading.families.push_back(
        {StrCat("millrace_run_", each.name), "Help.", "", MetricType::kGauge, each.name});
    reading.metrics.push_back({family, {}, each.group, "", each.value});
  }
  return reading;
}

TEST(CounterFile, ShowsWhatWasSetUnderItsNames) {
  test::TempDir folder;
  MetricsRegistry registry(folder.path());
  registry.AddGauge({"millrace_run_iteration", "Iteration."})->Set(12.5);
  registry.AddCounter({"millrace_run_iterations_here_total", "Iterations."});
  registry.AddGauge({"millrace_segment_members", "Members."}, {{"segment", "lan"}})->Set(3);
  registry.Publish("net on cluster/a");
  const std::vector<CounterFileReading> readings = ReadCounterFiles(folder.path());
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].pid, getpid());
  EXPECT_EQ(readings[0].title, "net on cluster/a");
  EXPECT_EQ(readings[0].Value("run", "iteration"), 12.5);
  EXPECT_EQ(readings[0].Value("run", "iterations_here"), 0);
  EXPECT_EQ(readings[0].Value("segment lan", "members"), 3);
  EXPECT_EQ(readings[0].Value("run", "members", -1), -1);
  EXPECT_EQ(readings[0].Groups(), (std::vector<std::string>{"run", "segment lan"}));
  ASSERT_EQ(readings[0].families.size(), 3u);
  EXPECT_EQ(readings[0].families[0].type, MetricType::kGauge);
  EXPECT_EQ(readings[0].families[1].type, MetricType::kCounter);
}

TEST(CounterFile, CutsItsTitleBetweenTwoCharacters) {
  for (const std::string last : {"x", "\u00e9"}) {
    test::TempDir folder;
    MetricsRegistry registry(folder.path());
    registry.Publish(std::string(94, 'x') + last + "y");
    EXPECT_EQ(ReadCounterFiles(folder.path()).at(0).title, std::string(last == "x" ? 95 : 94, 'x'));
  }
}

TEST(CounterFile, ShowsMetricsThatAreAddedLater) {
  test::TempDir folder;
  MetricsRegistry registry(folder.path());
  registry.Publish("grows");
  for (int i = 1; i <= 2000; ++i) {
    registry.AddCounter({"millrace_run_tests_total", "Tests."}, {{"net", std::to_string(i)}})
        ->Add(i);
    if (i % 500 != 0) continue;
    const CounterFileReading reading = ReadCounterFiles(folder.path()).at(0);
    ASSERT_EQ(reading.metrics.size(), static_cast<size_t>(i));
    EXPECT_EQ(reading.metrics.back().detail, StrCat(".", i));
    EXPECT_EQ(reading.Value("run", "tests"), i * (i + 1) / 2);
  }
}

// Readers see complete metrics only, in the order in which they were added.
TEST(CounterFile, IsReadWhileMetricsAreAddedAndCount) {
  test::TempDir folder;
  MetricsRegistry registry(folder.path());
  registry.Publish("grows");
  std::thread writer([&] {
    for (int i = 0; i < 3000; ++i) {
      const std::string name = StrCat("millrace_run_n", i % 100, "_total");
      registry.AddCounter({name, "A number."}, {{"i", std::to_string(i)}})->Add(7);
    }
  });
  for (size_t seen = 0; seen < 3000;) {
    const CounterFileReading reading = ReadCounterFiles(folder.path()).at(0);
    ASSERT_GE(reading.metrics.size(), seen);
    seen = reading.metrics.size();
    for (size_t i = 0; i < seen; ++i) {
      ASSERT_EQ(reading.NumberOf(reading.metrics[i]), StrCat("n", i % 100));
      ASSERT_EQ(reading.metrics[i].detail, StrCat(".", i));
      ASSERT_TRUE(reading.metrics[i].value == 7 || reading.metrics[i].value == 0);
    }
  }
  writer.join();
}

TEST(CounterFile, GoesWithItsProcessAndIsRemovedIfThatWasKilled) {
  test::TempDir folder;
  {
    MetricsRegistry registry(folder.path());
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // before Publish
    registry.Publish("gone");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const pid_t child = fork();
  if (child == 0) {
    auto* const registry = new MetricsRegistry(folder.path());
    registry->AddGauge({"millrace_run_loss", "Loss."});
    registry->Publish("killed");
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE(ReadCounterFiles(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CounterFile, IsOneLineWhereItCannotBeMade) {
  MetricsRegistry registry("/nowhere");
  Counter* const counter = registry.AddCounter({"millrace_run_tests_total", "Tests."});
  counter->Add(3);
  EXPECT_CONTAINS(test::ErrorOf([&] { registry.Publish("t"); }), "/nowhere/millrace_counters.");
  EXPECT_EQ(registry.Read().Value("run", "tests"), 3);  // the metrics are there nevertheless
}

TEST(CounterTable, ShowsTheMetricsOfProgramsAndPlugins) {
  test::TempDir folder;
  MetricsRegistry registry(folder.path());
  Counter* const rows = registry.AddCounter({"csv_rows_total", "Rows."}, {{"kind", "good"}});
  registry.AddGauge({"csv_depth", "Depth."})->Set(2.5);
  registry.AddGauge({"csv_in_segment", "Of a segment."}, {{"segment", "lan"}})->Set(1);
  rows->Add(10);
  registry.Publish("plugged");
  const std::vector<CounterFileReading> before = ReadCounterFiles(folder.path());
  rows->Add(30);
  const std::string table = CounterTable(before, ReadCounterFiles(folder.path()), 2);
  EXPECT_CONTAINS(table, "  csv_rows.good                            40           15/s\n");
  EXPECT_CONTAINS(table, "  csv_depth                               2.5\n");
  EXPECT_EQ(table.find("csv_in_segment"), std::string::npos);
  for (int i = 0; i < 30; ++i) registry.AddGauge({StrCat("more_", i), "More."});
  EXPECT_CONTAINS(CounterTable({}, ReadCounterFiles(folder.path()), 2), "  and 12 more\n");
}

TEST(CounterTable, ShowsRatesBetweenTwoLooks) {
  const CounterFileReading before =
      ReadingOf("LeNet on demo/a", {{"run", "iteration", 100},
                                    {"run", "loss", 0.25},
                                    {"run", "iterations_here", 40},
                                    {"run", "images_here", 2560},
                                    {"segment lan", "members", 3},
                                    {"segment lan", "in_sync", 1},
                                    {"segment lan", "wire_sent_bytes", 1e6},
                                    {"segment lan", "frames_dropped", 5},
                                    {"segment lan", "frames_dropped", 2},
                                    {"segment lan", "frames_dropped", 1}});
  CounterFileReading now = before;
  const double values[] = {160, 0.125, 60, 3840, 2, 1, 5e6, 9, 12, 3};
  for (size_t i = 0; i < now.metrics.size(); ++i) now.metrics[i].value = values[i];
  const std::string table = CounterTable({before}, {now}, 2.0);
  EXPECT_CONTAINS(table,
                  "LeNet on demo/a (pid 7): iteration 160, loss 0.1250, here 10.0 iterations/s, "
                  "640 images/s\n");
  EXPECT_CONTAINS(table, "  lan                   2 in sync      2.00     0.00");
  EXPECT_CONTAINS(table, "        8        0     0%\n");  // drops
  EXPECT_EQ(CounterTable({}, {}, 1), "nothing is training on this machine\n");
}

// Counter file of one process with two segments and three peers.
CounterFileReading OfTwoSegments() {
  return ReadingOf("LeNet \"demo\"", {{"run", "iteration", 100},
                                      {"segment lan", "members", 3},
                                      {"segment lan", "sweeps", 20.5},
                                      {"segment lan", "diffs_sent", 50},
                                      {"segment lan", "diffs_damped", 20},
                                      {"segment lan", "age_p50_seconds", 4.25e-3},
                                      {"segment lan", "age_max_seconds", 31.5e-3},
                                      {"segment lan", "age_iterations", 12.5},
                                      {"segment lan", "distance_rms", 0.0025},
                                      {"segment lan", "distance_max", 0.5},
                                      {"segment lan", "round_trip_p50_seconds", 1.5e-3},
                                      {"segment lan", "round_trip_p99_seconds", 8e-3},
                                      {"peer b on lan", "sent_bytes", 3e6},
                                      {"peer b on lan", "resends", 17},
                                      {"peer b on lan", "frames_dropped", 1},
                                      {"peer b on lan", "frames_dropped", 4},
                                      {"peer b on lan", "sweeps", 10},
                                      {"peer b on lan", "age_max_seconds", 31.5e-3},
                                      {"peer c on lan", "sent_bytes", 2e6},
                                      {"segment wan", "members", 2}});
}

TEST(CounterTable, ShowsHowCloseEachReplicaIs) {
  const std::string table = CounterTable({}, {OfTwoSegments()}, 2.0);
  EXPECT_CONTAINS(
      table,
      "  replica            sweeps/s   age ms   most ms age iter  damped  dist rms  "
      "dist max  trip ms   99% ms\n"
      "  lan                   10.25     4.25     31.50     12.5     40%    0.0025       "
      "0.5     1.50     8.00\n"
      "  wan                    0.00     0.00      0.00      0.0      0% ");
  EXPECT_EQ(table.find("  b "), std::string::npos);  // peers are shown only on request
}

TEST(CounterTable, ShowsPeersBelowTheirSegment) {
  const std::string table = CounterTable({}, {OfTwoSegments()}, 2.0, true);
  EXPECT_CONTAINS(
      table,
      "\n    b                                  1.50     0.00         0         0         "
      "0        8        2\n    c  ");
  EXPECT_CONTAINS(table,
                  "\n    b                    5.00     0.00     31.50      0.0                 0 ");
  std::vector<std::string> names;
  for (size_t at = table.find("\n  "); at != std::string::npos; at = table.find("\n  ", at + 1)) {
    const size_t begin = table.find_first_not_of(" \n", at);
    names.push_back(table.substr(begin, table.find(' ', begin) - begin));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"segment", "lan", "b", "c", "wan", "replica", "lan",
                                             "b", "c", "wan"}));
}

// A terminal gets only printable text, even from a file that a hostile user wrote.
TEST(CounterTable, ShowsNothingThatATerminalObeys) {
  const std::string hostile =
      "a\033[2Jb\u009b2Jc\x9b"
      "d\r\n\u202ee";
  const CounterFileReading reading = ReadingOf(
      hostile,
      {{"segment " + hostile, "members", 1},
       {"segment \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9x\u00e9\u00e9", "members", 1}});
  const std::string table = CounterTable({}, {reading}, 1);
  EXPECT_CONTAINS(table, "a?[2Jb?2Jc?d???e (pid 7)");
  EXPECT_CONTAINS(table, "\n  a?[2Jb?2Jc?d???e ");
  // A long name is truncated at a character boundary.
  EXPECT_CONTAINS(table, "\n  \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9x ");
  EXPECT_EQ(table, OneLinePerRow(table));
}

TEST(CounterTable, KeepsItsLinesWhateverTheNumbersAre) {
  const std::string table =
      CounterTable({},
                   {ReadingOf("t", {{"run", "iteration", 1e308},
                                    {"run", "loss", -1e308},
                                    {"run", "iterations_here", 1e308},
                                    {"segment s", "members", 1e308},
                                    {"segment s", "age_p50_seconds", -1e305}})},
                   1e-3);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
}

TEST(CounterTable, NamesTheOwnerOfAnotherUsersProcess) {
  CounterFileReading reading = ReadingOf("LeNet", {});
  reading.user = geteuid() + 1;
  EXPECT_CONTAINS(CounterTable({}, {reading}, 1),
                  StrCat("LeNet (pid 7, user ", geteuid() + 1, "): "));
}

// As many groups as a file can hold: formatting them takes no noticeable time.
TEST(CounterTable, IsMadeOfTheLargestFileThereMayBe) {
  CounterFileReading reading;
  reading.families = {{"members", "Help.", "", MetricType::kGauge, "members"}};
  for (int i = 0; i < 32768; ++i) {
    reading.metrics.push_back({0, {}, StrCat("segment ", i), "", static_cast<double>(i)});
  }
  EXPECT_CONTAINS(CounterTable({reading}, {reading}, 1), "\n  32767              32767 joining");
  EXPECT_CONTAINS(CounterFileJson({reading}), "\"segment 32767\":{\"members\":32767}");
}

TEST(CounterFileJson, EscapesWhatIsNotPrintable) {
  const std::string hostile = "\033\177\u009b\x9b\u202e\xed\xa0\x80\U000e0041\u00e9\xc3";
  const CounterFileReading reading = ReadingOf(hostile, {{"g", "\n", 1}});
  EXPECT_EQ(
      CounterFileJson({reading}),
      StrCat("[{\"pid\":7,\"user\":", geteuid(),
             ",\"title\":\"\\u001b\\u007f\\u009b\\ufffd\\u202e\\ufffd\\ufffd\\ufffd\\udb40\\udc41"
             "\u00e9\\ufffd\",\"groups\":{\"g\":{\"\\u000a\":1}}}]\n"));
}

TEST(CounterFileJson, NamesNothingTwice) {
  const CounterFileReading reading =
      ReadingOf("t", {{"g", "a", 1}, {"h", "a", 2}, {"g", "a", 3}, {"g", "b", 4}});
  EXPECT_CONTAINS(CounterFileJson({reading}), R"("groups":{"g":{"a":1,"b":4},"h":{"a":2}})");
}

TEST(CounterFileJson, HoldsEverythingOnOneLine) {
  CounterFileReading first = OfTwoSegments(), second;
  first.metrics.resize(3);
  first.metrics[0].value = 0.1;
  first.metrics[2].value = std::numeric_limits<double>::quiet_NaN();
  second.pid = 8;
  second.user = 1001;
  second.title = "a\nb\\";
  EXPECT_EQ(CounterFileJson({first, second}),
            StrCat("[{\"pid\":7,\"user\":", geteuid(),
                   ",\"title\":\"LeNet \\\"demo\\\"\",\"groups\":{\"run\":{"
                   "\"iteration\":0.10000000000000001},\"segment lan\":{\"members\":3,"
                   "\"sweeps\":null}}},{\"pid\":8,\"user\":1001,\"title\":\"a\\u000ab\\\\\","
                   "\"groups\":{}}]\n"));
  EXPECT_EQ(CounterFileJson({}), "[]\n");
}

}  // namespace
}  // namespace millrace
