#include "metrics/registry.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "millrace/metrics.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ErrorOf;

const MetricInfo kSent = {"millrace_segment_sent_bytes_total", "Bytes sent.", "bytes"};

TEST(MetricsRegistry, ReadsWhatWasWrittenUnderNamesAndLabels) {
  MetricsRegistry registry;
  Counter* const lan = registry.AddCounter(kSent, {{"segment", "lan"}, {"type", "diff"}});
  Counter* const wan = registry.AddCounter(kSent, {{"segment", "wan"}, {"peer", "b c"}});
  Gauge* const loss = registry.AddGauge({"millrace_run_loss", "Loss."});
  Gauge* const sweeps = registry.AddFractionalCounter({"millrace_segment_sweeps_total", "Sweeps."},
                                                      {{"segment", "lan"}});
  lan->Add();
  lan->Add(41);
  wan->Set(uint64_t{1} << 60);
  loss->Set(-0.5);
  sweeps->Add(1.25);
  sweeps->Add(1.25);

  const MetricsReading reading = registry.Read();
  ASSERT_EQ(reading.families.size(), 3u);
  EXPECT_EQ(reading.families[0].name, kSent.name);
  EXPECT_EQ(reading.families[0].help, kSent.help);
  EXPECT_EQ(reading.families[0].unit, "bytes");
  EXPECT_EQ(reading.families[0].number, "sent_bytes");
  EXPECT_EQ(reading.families[0].type, MetricType::kCounter);
  EXPECT_EQ(reading.families[1].type, MetricType::kGauge);
  EXPECT_EQ(reading.families[2].type, MetricType::kFractionalCounter);
  ASSERT_EQ(reading.metrics.size(), 4u);
  EXPECT_EQ(reading.metrics[0].labels, (MetricLabels{{"segment", "lan"}, {"type", "diff"}}));
  EXPECT_EQ(reading.metrics[0].group, "segment lan");
  EXPECT_EQ(reading.metrics[0].detail, ".diff");
  EXPECT_EQ(reading.metrics[0].value, 42);
  EXPECT_EQ(reading.metrics[1].group, "peer b c on wan");
  EXPECT_EQ(reading.metrics[1].detail, "");
  EXPECT_EQ(reading.metrics[1].value, 0x1p60);
  EXPECT_EQ(reading.metrics[2].group, "run");
  EXPECT_EQ(reading.metrics[2].value, -0.5);
  EXPECT_EQ(reading.metrics[3].value, 2.5);
}

TEST(MetricsRegistry, SumsTheDetailsOfANumber) {
  MetricsRegistry registry;
  for (const char* type : {"diff", "position"}) {
    registry.AddCounter(kSent, {{"segment", "lan"}, {"type", type}})->Add(5);
  }
  registry.AddCounter(kSent, {{"segment", "wan"}, {"type", "diff"}})->Add(1);
  const MetricsReading reading = registry.Read();
  EXPECT_EQ(reading.Value("segment lan", "sent_bytes"), 10);
  EXPECT_EQ(reading.Value("segment wan", "sent_bytes"), 1);
  EXPECT_EQ(reading.Value("segment man", "sent_bytes", 7), 7);
  EXPECT_EQ(reading.Groups(), (std::vector<std::string>{"segment lan", "segment wan"}));
}

TEST(MetricsRegistry, RefusesAMetricThatExists) {
  MetricsRegistry registry;
  registry.AddCounter(kSent, {{"segment", "lan"}});
  EXPECT_EQ(ErrorOf([&] {
              registry.AddCounter(kSent, {{"segment", "lan"}});
            }),
            "metric millrace_segment_sent_bytes_total: exists with these labels already");
  registry.AddCounter(kSent, {{"segment", "wan"}});
  registry.AddCounter(kSent);
  for (const MetricInfo& other :
       {MetricInfo{kSent.name, "Other help.", "bytes"}, MetricInfo{kSent.name, kSent.help, ""}}) {
    EXPECT_EQ(ErrorOf([&] {
                registry.AddCounter(other, {{"segment", "man"}});
              }),
              "metric millrace_segment_sent_bytes_total: exists with another type, unit or help "
              "text");
  }
  EXPECT_CONTAINS(ErrorOf([&] {
                    registry.AddFractionalCounter(kSent, {{"segment", "man"}});
                  }),
                  "exists with another type");
  EXPECT_EQ(registry.Read().metrics.size(), 3u);
}

TEST(MetricsRegistry, ChecksNames) {
  MetricsRegistry registry;
  const auto counter = [&](const MetricInfo& info) {
    return ErrorOf([&] { registry.AddCounter(info); });
  };
  EXPECT_CONTAINS(counter({"", "Help."}), "metric \"\": expected a name of a-z, 0-9 and _");
  EXPECT_CONTAINS(counter({"7_total", "Help."}), "expected a name of a-z, 0-9 and _");
  EXPECT_CONTAINS(counter({"a-b_total", "Help."}), "expected a name of a-z, 0-9 and _");
  EXPECT_CONTAINS(counter({"A_total", "Help."}), "expected a name of a-z, 0-9 and _");
  EXPECT_CONTAINS(counter({"a\n_total", "Help."}), "metric \"a?_total\": ");
  EXPECT_CONTAINS(counter({"a", "Help."}), "expected a name that ends with _total");
  EXPECT_CONTAINS(ErrorOf([&] {
                    registry.AddGauge({"a_total", "Help."});
                  }),
                  "expected a name that ends with _total for a counter, and for no gauge");
  EXPECT_CONTAINS(counter({"a_total", "Help.", "seconds"}),
                  "metric a_total: expected its unit, seconds, at the end of its name");
  EXPECT_CONTAINS(counter({"a_total", ""}), "metric a_total: expected a help text");
  EXPECT_TRUE(registry.Read().metrics.empty());
}

TEST(MetricsRegistry, CutsNothing) {
  MetricsRegistry registry;
  const auto error = [&](const MetricInfo& info, const MetricLabels& labels = {}) {
    return ErrorOf([&] { registry.AddGauge(info, labels); });
  };
  EXPECT_CONTAINS(error({std::string(64, 'a'), "Help."}),
                  ": its name has 64 bytes, expected at most 63");
  EXPECT_CONTAINS(error({"a", std::string(168, 'h')}),
                  "metric a: its help has 168 bytes, expected at most 167");
  EXPECT_CONTAINS(error({"a", "Help.", std::string(16, 'u')}),
                  "its unit has 16 bytes, expected at most 15");
  // With the key and two zeros: 248 bytes.
  EXPECT_CONTAINS(error({"a", "Help."}, {{"segment", std::string(239, 's')}}),
                  "its label text has 248 bytes, expected at most 247");
  registry.AddGauge({std::string(63, 'a'), std::string(167, 'h')},
                    {{"segment", std::string(238, 's')}});
  const MetricsReading reading = registry.Read();
  EXPECT_EQ(reading.families[0].name, std::string(63, 'a'));
  EXPECT_EQ(reading.families[0].help, std::string(167, 'h'));
  EXPECT_EQ(reading.metrics[0].labels[0].second, std::string(238, 's'));
}

TEST(MetricsRegistry, ChecksLabels) {
  MetricsRegistry registry;
  const auto error = [&](const MetricLabels& labels) {
    return ErrorOf([&] { registry.AddGauge({"a", "Help."}, labels); });
  };
  EXPECT_CONTAINS(error({{"", "x"}}), "metric a: label \"\": expected keys");
  EXPECT_CONTAINS(error({{"a b", "x"}}), "label \"a b\": expected keys");
  EXPECT_CONTAINS(error({{"a", "x"}, {"b", "y"}, {"a", "z"}}), "label \"a\": expected keys");
  EXPECT_CONTAINS(error({{"a", std::string("x\0y", 3)}}), "values without zero bytes");
  registry.AddGauge({"a", "Help."}, {{"segment", ""}, {"type", "\u00e9 \"\\\n"}});
  EXPECT_EQ(registry.Read().metrics[0].labels[1].second, "\u00e9 \"\\\n");
  EXPECT_EQ(registry.Read().metrics[0].group, "segment ");
}

TEST(MetricsRegistry, HasRoomForAStatedNumberOfNames) {
  MetricsRegistry registry;
  for (int i = 0; i < 255; ++i) registry.AddGauge({StrCat("a", i), "Help."});
  EXPECT_CONTAINS(ErrorOf([&] {
                    registry.AddGauge({"b", "Help."});
                  }),
                  "metric b: the registry has 255 names already");
  registry.AddGauge({"a0", "Help."}, {{"segment", "lan"}});
  EXPECT_EQ(registry.room(), MetricsRegistry::kCapacity - 256);
}

TEST(MetricsRegistry, WithoutAFileIsNotPublished) {
  MetricsRegistry registry;
  EXPECT_EQ(registry.path(), "");
  EXPECT_EQ(ErrorOf([&] { registry.Publish("t"); }), "metrics: in private memory");
}

// In private memory and in a file: addresses stay, and no count is lost.
TEST(MetricsRegistry, IsReadWhileOthersAddAndCount) {
  test::TempDir folder;
  MetricsRegistry of_memory, of_file(folder.path());
  for (MetricsRegistry* registry : {&of_memory, &of_file}) {
    constexpr int kMetrics = 2000, kCounts = 50;
    const auto work = [&](const std::string& thread) {
      std::vector<Counter*> counters;
      for (int i = 0; i < kMetrics; ++i) {
        counters.push_back(registry->AddCounter({"millrace_run_each_total", "Each."},
                                                {{"thread", thread}, {"i", std::to_string(i)}}));
      }
      for (int count = 0; count < kCounts; ++count) {
        for (Counter* each : counters) each->Add();
      }
    };
    std::thread one(work, "one"), two(work, "two");
    double last = 0;
    while (last < 2 * kMetrics * kCounts) {
      const double now = registry->Read().Value("run", "each");
      ASSERT_GE(now, last);
      last = now;
    }
    one.join();
    two.join();
    const MetricsReading reading = registry->Read();
    EXPECT_EQ(reading.metrics.size(), size_t{2 * kMetrics});
    for (const auto& metric : reading.metrics) ASSERT_EQ(metric.value, kCounts);
  }
}

TEST(MetricsRegistry, LendsItsRoomToParts) {
  test::TempDir folder;
  MetricsRegistry whole(folder.path());
  whole.AddGauge({"own", "Own."})->Set(7);
  const MetricLabels lan = {{"segment", "lan"}};
  {
    MetricsRegistry part(&whole);
    part.AddCounter(kSent, lan)->Add(5);
    EXPECT_EQ(part.path(), whole.path());
    EXPECT_EQ(part.Read().Value("run", "own"), 7);
    EXPECT_EQ(whole.Read().Value("segment lan", "sent_bytes"), 5);
    // Two parts at the same time may not have the same metrics.
    MetricsRegistry other(&whole);
    EXPECT_CONTAINS(ErrorOf([&] { other.AddCounter(kSent, lan); }), "exists with these labels");
    EXPECT_CONTAINS(ErrorOf([&] { whole.AddCounter(kSent, lan); }), "exists with these labels");
  }
  EXPECT_EQ(whole.Read().Value("segment lan", "sent_bytes"), 5);  // its last value
  MetricsRegistry next(&whole);
  EXPECT_CONTAINS(ErrorOf([&] { next.AddFractionalCounter(kSent, lan); }), "another type");
  Counter* const counter = next.AddCounter(kSent, lan);
  EXPECT_EQ(counter->Read(), 0u);
  counter->Add(2);
  const MetricsReading reading = whole.Read();
  EXPECT_EQ(reading.Value("segment lan", "sent_bytes"), 2);
  EXPECT_EQ(reading.metrics.size(), 2u);
  EXPECT_CONTAINS(ErrorOf([&] { whole.AddGauge({"own", "Own."}); }), "exists with these labels");
}

TEST(MetricsRegistry, ItsPartsKeepItsFile) {
  test::TempDir folder;
  auto whole = std::make_unique<MetricsRegistry>(folder.path());
  auto part = std::make_unique<MetricsRegistry>(whole.get());
  part->Publish("part");
  Counter* const counter = part->AddCounter(kSent);
  whole.reset();
  counter->Add(3);
  ASSERT_EQ(ReadCounterFiles(folder.path()).size(), 1u);
  EXPECT_EQ(ReadCounterFiles(folder.path())[0].Value("run", "sent_bytes"), 3);
  part.reset();
  EXPECT_TRUE(ReadCounterFiles(folder.path()).empty());
}

TEST(MetricsRegistry, TakesAnotherTitle) {
  test::TempDir folder;
  MetricsRegistry registry(folder.path());
  registry.Publish("a longer title");
  registry.Publish("short");
  EXPECT_EQ(ReadCounterFiles(folder.path()).at(0).title, "short");
}

// In a process of its own, whose end removes the file.
TEST(MetricsRegistry, OfTheProcessLastsUntilItEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    MetricsRegistry& registry = MetricsRegistry::OfProcess();
    registry.AddCounter({"test_total", "A test."})->Add(4);
    registry.Publish("of the process");
    const bool same = &registry == &MetricsRegistry::OfProcess();
    const std::vector<CounterFileReading> readings = ReadCounterFiles();
    bool found = false;
    for (const CounterFileReading& each : readings) {
      found |= each.pid == getpid() && each.Value("run", "test") == 4;
    }
    const char seen = same && found ? 'y' : 'n';
    if (write(ends[1], &seen, 1) != 1) _exit(1);
    // A process forked from it leaves the file in place.
    const pid_t forked = fork();
    if (forked == 0) std::exit(0);
    waitpid(forked, nullptr, 0);
    const char still = std::filesystem::exists(registry.path()) ? 'y' : 'n';
    if (write(ends[1], &still, 1) != 1) _exit(1);
    std::exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  char answers[2] = {};
  EXPECT_EQ(read(ends[0], answers, 2), 2);
  EXPECT_EQ(std::string(answers, 2), "yy");
  EXPECT_FALSE(std::filesystem::exists(StrCat("/dev/shm/millrace_counters.", child)));
  close(ends[0]);
  close(ends[1]);
}

TEST(MetricScope, AddsItsPrefixAndLabels) {
  MetricsRegistry registry;
  const MetricScope scope(&registry, "segment", {{"segment", "lan"}});
  scope.AddGauge({"members", "Members."});
  scope.AddCounter({"frames_sent_total", "Frames."}, {{"type", "diff"}});
  const MetricsReading reading = registry.Read();
  EXPECT_EQ(reading.families[0].name, "millrace_segment_members");
  EXPECT_EQ(reading.metrics[0].labels, (MetricLabels{{"segment", "lan"}}));
  EXPECT_EQ(reading.metrics[1].labels, (MetricLabels{{"segment", "lan"}, {"type", "diff"}}));
}

}  // namespace
}  // namespace millrace
