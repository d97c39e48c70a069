#include "metrics/counter_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "metrics/counter_table.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Kind = CounterEntry::Kind;

std::vector<CounterEntry> SomeEntries() {
  return {{"run", "iteration", Kind::kGauge},
          {"run", "iterations_here", Kind::kCount},
          {"segment lan", "members", Kind::kGauge}};
}

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
CounterFileReading ReadingOf(const std::string& title, Kind kind,
                             const std::vector<Number>& numbers) {
  CounterFileReading reading;
  reading.pid = 7;
  reading.user = geteuid();
  reading.title = title;
  for (const Number& each : numbers) {
    reading.entries.push_back({each.group, each.name, kind});
    reading.values.push_back(each.value);
  }
  return reading;
}

TEST(CounterFile, ShowsWhatWasSetUnderItsNames) {
  test::TempDir folder;
  CounterFile counter_file("net on cluster/a", SomeEntries(), folder.path());
  counter_file.Set(0, 12.5);
  counter_file.Set(2, 3);
  const std::vector<CounterFileReading> readings = ReadCounterFiles(folder.path());
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].pid, getpid());
  EXPECT_EQ(readings[0].title, "net on cluster/a");
  EXPECT_EQ(readings[0].Value("run", "iteration"), 12.5);
  EXPECT_EQ(readings[0].Value("run", "iterations_here"), 0);
  EXPECT_EQ(readings[0].Value("segment lan", "members"), 3);
  EXPECT_EQ(readings[0].Value("run", "members", -1), -1);
  EXPECT_EQ(readings[0].Groups(), (std::vector<std::string>{"run", "segment lan"}));
  EXPECT_EQ(readings[0].entries[0].kind, Kind::kGauge);
  EXPECT_EQ(readings[0].entries[1].kind, Kind::kCount);
}

TEST(CounterFile, CutsNamesToTheirRoom) {
  test::TempDir folder;
  const std::string lots(500, 'x');
  CounterFile counter_file(lots, {{lots, lots, Kind::kCount}}, folder.path());
  const CounterFileReading reading = ReadCounterFiles(folder.path()).at(0);
  EXPECT_EQ(reading.title, lots.substr(0, 95));
  EXPECT_EQ(reading.entries[0].group, lots.substr(0, 47));
  EXPECT_EQ(reading.entries[0].name, lots.substr(0, 31));
}

TEST(CounterFile, CutsNamesBetweenTwoCharacters) {
  test::TempDir folder;
  CounterFile counter_file(std::string(94, 'x') + "\u00e9", SomeEntries(), folder.path());
  EXPECT_EQ(ReadCounterFiles(folder.path()).at(0).title, std::string(94, 'x'));
}

TEST(CounterFile, GoesWithItsProcessAndIsRemovedIfThatWasKilled) {
  test::TempDir folder;
  { CounterFile counter_file("gone", {}, folder.path()); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const pid_t child = fork();
  if (child == 0) {
    new CounterFile("killed", SomeEntries(), folder.path());
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE(ReadCounterFiles(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CounterFile, IsOneLineWhereItCannotBeMade) {
  EXPECT_CONTAINS(test::ErrorOf([] { CounterFile counter_file("t", {}, "/nowhere"); }),
                  "/nowhere/millrace_board.");
}

TEST(CounterTable, ShowsRatesBetweenTwoLooks) {
  const CounterFileReading before = ReadingOf("LeNet on demo/a", Kind::kCount,
                                              {{"run", "iteration", 100},
                                               {"run", "loss", 0.25},
                                               {"run", "iterations_here", 40},
                                               {"run", "images_here", 2560},
                                               {"segment lan", "members", 3},
                                               {"segment lan", "in_sync", 1},
                                               {"segment lan", "wire_bytes_out", 1e6},
                                               {"segment lan", "dropped_filter", 5},
                                               {"segment lan", "dropped_handshake", 2},
                                               {"segment lan", "dropped_transport", 1}});
  CounterFileReading now = before;
  now.values = {160, 0.125, 60, 3840, 2, 1, 5e6, 9, 12, 3};
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
  return ReadingOf("LeNet \"demo\"", Kind::kGauge,
                   {{"run", "iteration", 100},
                    {"segment lan", "members", 3},
                    {"segment lan", "sweeps", 20.5},
                    {"segment lan", "diffs_sent", 50},
                    {"segment lan", "diffs_damped", 20},
                    {"segment lan", "age_p50_ms", 4.25},
                    {"segment lan", "age_max_ms", 31.5},
                    {"segment lan", "age_iterations", 12.5},
                    {"segment lan", "distance_rms", 0.0025},
                    {"segment lan", "distance_max", 0.5},
                    {"segment lan", "round_trip_p50_ms", 1.5},
                    {"segment lan", "round_trip_p99_ms", 8},
                    {"peer b on lan", "bytes_out", 3e6},
                    {"peer b on lan", "resends", 17},
                    {"peer b on lan", "dropped_exchange", 1},
                    {"peer b on lan", "dropped_filter", 4},
                    {"peer b on lan", "sweeps", 10},
                    {"peer b on lan", "age_max_ms", 31.5},
                    {"peer c on lan", "bytes_out", 2e6},
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
      hostile, Kind::kGauge,
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
  const std::string table = CounterTable({},
                                         {ReadingOf("t", Kind::kGauge,
                                                    {{"run", "iteration", 1e308},
                                                     {"run", "loss", -1e308},
                                                     {"run", "iterations_here", 1e308},
                                                     {"segment s", "members", 1e308},
                                                     {"segment s", "age_p50_ms", -1e308}})},
                                         1e-3);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
}

TEST(CounterTable, NamesTheOwnerOfAnotherUsersProcess) {
  CounterFileReading reading = ReadingOf("LeNet", Kind::kGauge, {});
  reading.user = geteuid() + 1;
  EXPECT_CONTAINS(CounterTable({}, {reading}, 1),
                  StrCat("LeNet (pid 7, user ", geteuid() + 1, "): "));
}

// As many groups as a file can hold: formatting them takes no noticeable time.
TEST(CounterTable, IsMadeOfTheLargestFileThereMayBe) {
  CounterFileReading reading;
  for (int i = 0; i < 65536; ++i) {
    reading.entries.push_back({StrCat("segment ", i), "members", Kind::kGauge});
    reading.values.push_back(i);
  }
  EXPECT_CONTAINS(CounterTable({reading}, {reading}, 1), "\n  65535              65535 joining");
  EXPECT_CONTAINS(CounterFileJson({reading}), "\"segment 65535\":{\"members\":65535}");
}

TEST(CounterFileJson, EscapesWhatIsNotPrintable) {
  const std::string hostile = "\033\177\u009b\x9b\u202e\xed\xa0\x80\U000e0041\u00e9\xc3";
  const CounterFileReading reading = ReadingOf(hostile, Kind::kGauge, {{"g", "\n", 1}});
  EXPECT_EQ(
      CounterFileJson({reading}),
      StrCat("[{\"pid\":7,\"user\":", geteuid(),
             ",\"title\":\"\\u001b\\u007f\\u009b\\ufffd\\u202e\\ufffd\\ufffd\\ufffd\\udb40\\udc41"
             "\u00e9\\ufffd\",\"groups\":{\"g\":{\"\\u000a\":1}}}]\n"));
}

TEST(CounterFileJson, NamesNothingTwice) {
  const CounterFileReading reading =
      ReadingOf("t", Kind::kGauge, {{"g", "a", 1}, {"h", "a", 2}, {"g", "a", 3}, {"g", "b", 4}});
  EXPECT_CONTAINS(CounterFileJson({reading}), R"("groups":{"g":{"a":1,"b":4},"h":{"a":2}})");
}

TEST(CounterFileJson, HoldsEverythingOnOneLine) {
  CounterFileReading first = OfTwoSegments(), second;
  first.values[0] = 0.1;
  first.entries.resize(3);
  first.values.resize(3);
  first.values[2] = std::numeric_limits<double>::quiet_NaN();
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
