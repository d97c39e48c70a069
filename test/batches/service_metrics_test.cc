// The metrics of a minibatch service against the table of docs/operations.md.
#include "batches/service_metrics.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "metrics/openmetrics.h"
#include "test/support/doc_page.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(ServiceMetricsDoc, ThePageListsExactlyTheMetricsOfAMinibatchService) {
  MetricsRegistry registry;
  const ServiceMetrics metrics(&registry, "train");
  const MetricsReading reading = registry.Read();
  std::set<std::tuple<std::string, std::string, std::string>> exist, listed;
  for (const MetricsReading::Metric& metric : reading.metrics) {
    const MetricsReading::Family& family = reading.families[metric.family];
    std::string keys;
    for (const auto& [key, value] : metric.labels) keys += (keys.empty() ? "" : ", ") + key;
    exist.emplace(family.name, NameOf(family.type), keys);
    EXPECT_TRUE(family.help.ends_with(".")) << family.name;
  }
  const std::vector<Cells> rows =
      ReadDocPage("docs/operations.md")["Metrics of a minibatch service"].rows;
  for (Cells row : rows) {
    std::erase(row.at(0), '`');
    listed.emplace(row.at(0), row.at(1), row.at(2));
  }
  EXPECT_EQ(listed, exist);
}

TEST(ServiceMetricsDoc, AServiceThatIsMadeAgainGoesOnInTheSameRegistry) {
  MetricsRegistry registry;
  for (uint64_t made : {5, 7}) {
    ServiceMetrics metrics(&registry, "train");
    metrics.Update({.made = made, .waiting = 2});
    metrics.AddSent(true, 100);
    metrics.AddMade(500'000'000);
    const MetricsReading reading = registry.Read();
    EXPECT_EQ(reading.Value("run", "made"), static_cast<double>(made));
    EXPECT_EQ(reading.Value("run", "waiting_workers"), 2);
    EXPECT_GE(reading.Value("run", "make_seconds"), 0.5);
  }
}

}  // namespace
}  // namespace millrace::test
