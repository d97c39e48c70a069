#include "metrics/metrics_writer.h"

#include <glog/logging.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "test/metrics/rows.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::TrainRow;

// Captures the messages logged during its lifetime.
class LogCapture : public google::LogSink {
 public:
  LogCapture() { google::AddLogSink(this); }
  ~LogCapture() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t length) override {
    messages.emplace_back(message, length);
  }
  std::vector<std::string> messages;
};

TEST(Metrics, WritesOneLineOfJsonPerRowWithTheNamesOfTheSchema) {
  test::TempDir folder;
  {
    MetricsWriter writer(folder / "run.jsonl");
    MetricsRow row = TrainRow(1.5, 100, 0.25);
    row.mutable_train()->set_learning_rate(0.01);
    row.mutable_train()->set_images_per_second(1000);
    writer.Write(row);
    EXPECT_EQ(ReadFile(folder / "run.jsonl"),
              "{\"time\":1.5,\"iter\":100,\"train\":{\"loss\":0.25,\"learning_rate\":0.01,"
              "\"images_per_second\":1000}}\n");
    writer.Write(row);
  }
  EXPECT_EQ(ReadMetrics(folder / "run.jsonl").size(), 2u);
}

TEST(Metrics, ReadsBackEveryField) {
  MetricsRow row;
  row.set_time(0.125);
  row.set_iter(INT32_MAX);
  row.mutable_run()->set_name("LeNet \"quoted\"\n<&>");
  row.mutable_run()->set_solver("examples/lenet.prototxt");
  row.mutable_run()->set_solvers(4);
  row.mutable_run()->set_max_iter(10000);
  row.mutable_run()->set_seed(UINT64_MAX);
  row.mutable_run()->set_start_unix_time(1.7e9 + 1.0 / 3);
  row.mutable_test()->set_net(1);
  (*row.mutable_test()->mutable_outputs())["accuracy"] = 0.1 + 0.2;
  (*row.mutable_test()->mutable_outputs())["loss"] = 1e-300;
  const std::string line = MetricsLine(row);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(ParseMetricsLine(line, "x"), row));
}

TEST(Metrics, CarryNumbersOfSegmentsBesideThoseOfTraining) {
  MetricsRow row = TrainRow(1, 100, 0.25);
  (*row.mutable_segments())["lan.sweeps"] = 20.5;
  const std::string line = MetricsLine(row);
  EXPECT_EQ(line,
            "{\"time\":1,\"iter\":100,\"train\":{\"loss\":0.25},"
            "\"segments\":{\"lan.sweeps\":20.5}}");
  (*row.mutable_segments())["lan.frames_sent"] = 12345678901.0;
  (*row.mutable_segments())["wan.frames_sent"] = 0;
  const MetricsRow back = ParseMetricsLine(MetricsLine(row), "x");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(back, row));
}

TEST(Metrics, KeepsNumbersThatAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto loss = [](double value) {
    return ParseMetricsLine(MetricsLine(TrainRow(1, 1, value)), "x").train().loss();
  };
  EXPECT_TRUE(std::isnan(loss(std::nan(""))));
  EXPECT_EQ(loss(infinity), infinity);
  EXPECT_EQ(loss(-infinity), -infinity);
}

TEST(Metrics, TakesNamesThatAreNotUtf8) {
  test::TempDir folder;
  MetricsWriter writer(folder / "m");
  MetricsRow row;
  row.mutable_run()->set_name("caf\xe9 \xff\xfe");
  writer.Write(row);
  EXPECT_EQ(ReadMetrics(folder / "m").size(), 1u);
}

TEST(Metrics, ContinuesTheFileOfARunThatIsResumed) {
  test::TempDir folder;
  MetricsWriter(folder / "m").Write(TrainRow(1, 1, 1));
  MetricsWriter(folder / "m").Write(TrainRow(2, 2, 2));
  const auto rows = ReadMetrics(folder / "m");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].iter(), 2);
}

TEST(Metrics, TakesOffTheUnfinishedRowOfAKilledRunBeforeItContinues) {
  test::TempDir folder;
  const std::string whole = MetricsLine(TrainRow(1, 1, 1)) + "\n";
  test::WriteFile(folder / "m", whole + whole.substr(0, 20));
  MetricsWriter(folder / "m").Write(TrainRow(2, 2, 2));
  EXPECT_EQ(ReadFile(folder / "m"), whole + MetricsLine(TrainRow(2, 2, 2)) + "\n");
}

TEST(Metrics, CompletesALastRowThatOnlyLacksItsLineBreak) {
  test::TempDir folder;
  const std::string line = MetricsLine(TrainRow(1, 1, 1));
  test::WriteFile(folder / "m", line);
  MetricsWriter(folder / "m").Write(TrainRow(2, 2, 2));
  EXPECT_EQ(ReadMetrics(folder / "m").size(), 2u);
}

TEST(Metrics, LeavesAForeignFileAlone) {
  test::TempDir folder;
  for (const std::string content : {"a diary\n", "{\"other\": \"json\"}", "\n", "{"}) {
    test::WriteFile(folder / "m", content);
    const std::string error = test::ErrorOf([&] { MetricsWriter writer(folder / "m"); });
    EXPECT_CONTAINS(error, folder / "m:1: ");
    EXPECT_CONTAINS(error, "choose another file");
    EXPECT_EQ(ReadFile(folder / "m"), content);
  }
}

TEST(Metrics, RefusesAPathThatCannotBeWritten) {
  test::TempDir folder;
  EXPECT_CONTAINS(test::ErrorOf([&] { MetricsWriter writer(folder / "none/m"); }),
                  folder / "none/m: cannot be written: No such file or directory");
  EXPECT_CONTAINS(test::ErrorOf([&] { MetricsWriter writer(folder.path()); }),
                  "cannot be written: Is a directory");
}

TEST(Metrics, ReportsAFullDiskOnceAndGoesOn) {
  LogCapture log;
  {
    MetricsWriter writer("/dev/full");
    for (int i = 0; i < 5; ++i) writer.Write(TrainRow(i, i, 1));
    ASSERT_EQ(log.messages.size(), 1u);
    EXPECT_EQ(log.messages[0],
              "/dev/full: metrics cannot be written: No space left on device; training goes on "
              "without them");
  }
  ASSERT_EQ(log.messages.size(), 2u);
  EXPECT_EQ(log.messages[1], "/dev/full: 5 metrics rows could not be written");
}

TEST(Metrics, TakesBackAPartOfARowAndContinuesWhenThereIsRoomAgain) {
  test::TempDir folder;
  const size_t row_bytes = MetricsLine(TrainRow(1, 1, 1)).size() + 1;
  LogCapture log;
  MetricsWriter writer(folder / "m");
  writer.Write(TrainRow(1, 1, 1));
  // A file size limit has the effect of a full disk.
  const auto before = signal(SIGXFSZ, SIG_IGN);
  struct rlimit old_limit, limit;
  getrlimit(RLIMIT_FSIZE, &old_limit);
  limit = old_limit;
  limit.rlim_cur = row_bytes + row_bytes / 2;
  setrlimit(RLIMIT_FSIZE, &limit);
  writer.Write(TrainRow(2, 2, 2));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(log.messages.size(), 1u);
  EXPECT_EQ(ReadFile(folder / "m").size(), row_bytes);
  writer.Write(TrainRow(3, 3, 3));
  const auto rows = ReadMetrics(folder / "m");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].iter(), 3);
}

TEST(Metrics, KeepsRowsOfSeveralThreadsApart) {
  test::TempDir folder;
  MetricsWriter writer(folder / "m");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) writer.Write(TrainRow(t, i, 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadMetrics(folder / "m").size(), 400u);
}

TEST(MetricsReader, PassesOverALastLineThatAKilledRunLeftUnfinished) {
  const std::string whole = MetricsLine(TrainRow(1, 1, 1)) + "\n";
  for (size_t cut = 0; cut + 1 < whole.size(); ++cut) {
    const auto rows = ParseMetrics(whole + whole.substr(0, cut), "m");
    EXPECT_EQ(rows.size(), cut + 2 == whole.size() + 1 ? 2u : 1u) << cut;
  }
  EXPECT_EQ(ParseMetrics(whole + whole.substr(0, whole.size() - 1), "m").size(), 2u);
}

TEST(MetricsReader, NamesTheLineThatIsNoRow) {
  const std::string whole = MetricsLine(TrainRow(1, 1, 1)) + "\n";
  for (const std::string bad :
       {"", "nonsense", "{\"time\":1", "{\"time\":\"soon\",\"iter\":1,\"train\":{}}",
        "{\"tme\":1,\"train\":{}}", "[1]", "{}", "{\"time\":1,\"train\":{\"loss\":1}}",
        "{\"iter\":1,\"test\":{}}", "{\"time\":1,\"iter\":1}", "7", "null"}) {
    const std::string error =
        test::ErrorOf([&] { ParseMetrics(whole + bad + "\n" + whole, "run.jsonl"); });
    EXPECT_EQ(error.rfind("run.jsonl:2: ", 0), 0u) << error;
    EXPECT_CONTAINS(error, "expected a metrics row such as {\"time\"");
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(MetricsReader, GivesItsOwnExampleOfARow) {
  const std::string error = test::ErrorOf([] { ParseMetricsLine("", "x"); });
  const MetricsRow row = ParseMetricsLine(error.substr(error.find('{')), "x");
  EXPECT_EQ(row.iter(), 100);
}

TEST(MetricsReader, RefusesAFileWithoutRows) {
  test::TempDir folder;
  test::WriteFile(folder / "m", "");
  EXPECT_EQ(test::ErrorOf([&] { ReadMetrics(folder / "m"); }), folder / "m: holds no metrics rows");
  EXPECT_CONTAINS(test::ErrorOf([&] { ReadMetrics(folder / "none"); }), "No such file");
}

}  // namespace
}  // namespace millrace
