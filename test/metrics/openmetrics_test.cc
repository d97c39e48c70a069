#include "metrics/openmetrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace::test {
namespace {

MetricsReading SomeReading() {
  MetricsReading reading;
  reading.families = {{"rows_total", "Rows read.", "", MetricType::kCounter, "rows"},
                      {"wait_seconds", "A \"wait\".\nLong.", "seconds", MetricType::kGauge, ""},
                      {"unused", "Has no metric.", "", MetricType::kGauge, ""}};
  reading.metrics = {{0, {{"file", "a"}}, "", "", 9007199254740993.0},
                     {1, {}, "", "", 0.1},
                     {0, {{"file", "b\n\"\\"}, {"net", "0"}}, "", "", 1}};
  return reading;
}

// Samples of a family are together, whatever their order.
TEST(FormatMetricsTest, WritesPrometheusText) {
  EXPECT_EQ(FormatMetrics(SomeReading(), MetricsFormat::kPrometheus),
            "# TYPE rows_total counter\n"
            "# HELP rows_total Rows read.\n"
            "rows_total{file=\"a\"} 9007199254740992\n"
            "rows_total{file=\"b?\\\"\\\\\",net=\"0\"} 1\n"
            "# TYPE wait_seconds gauge\n"
            "# HELP wait_seconds A \"wait\".?Long.\n"
            "wait_seconds 0.1\n");
}

TEST(FormatMetricsTest, WritesOpenMetrics) {
  EXPECT_EQ(FormatMetrics(SomeReading(), MetricsFormat::kOpenMetrics),
            "# TYPE rows counter\n"
            "# HELP rows Rows read.\n"
            "rows_total{file=\"a\"} 9007199254740992\n"
            "rows_total{file=\"b?\\\"\\\\\",net=\"0\"} 1\n"
            "# TYPE wait_seconds gauge\n"
            "# UNIT wait_seconds seconds\n"
            "# HELP wait_seconds A \\\"wait\\\".?Long.\n"
            "wait_seconds 0.1\n"
            "# EOF\n");
}

TEST(FormatMetricsTest, EscapesLabels) {
  EXPECT_EQ(LabelText({}), "");
  EXPECT_EQ(LabelText({{"file", "b\n\"\\"}, {"net", "0"}}), "file=\"b?\\\"\\\\\",net=\"0\"");
}

TEST(FormatMetricsTest, WritesHistograms) {
  MetricsRegistry registry;
  Histogram seconds = registry.AddHistogram({"step_seconds", "A step.", "seconds"}, {0.5, 2});
  for (const double value : {0.25, 0.5, 1.5, 8.0}) seconds.Observe(value);
  const std::string samples =
      "step_seconds_bucket{le=\"0.5\"} 2\n"
      "step_seconds_bucket{le=\"2\"} 3\n"
      "step_seconds_bucket{le=\"+Inf\"} 4\n"
      "step_seconds_sum 10.25\n"
      "step_seconds_count 4\n";
  EXPECT_EQ(FormatMetrics(registry.Read(), MetricsFormat::kPrometheus),
            "# TYPE step_seconds histogram\n# HELP step_seconds A step.\n" + samples);
  EXPECT_EQ(FormatMetrics(registry.Read(), MetricsFormat::kOpenMetrics),
            "# TYPE step_seconds histogram\n# UNIT step_seconds seconds\n"
            "# HELP step_seconds A step.\n" +
                samples + "# EOF\n");
  EXPECT_THROW(registry.AddHistogram({"other_seconds", "A step.", "seconds"}, {2, 0.5}), Error);
  EXPECT_THROW(registry.AddHistogram({"other", "A step.", "seconds"}, {1}), Error);
}

TEST(FormatMetricsTest, WritesNumbersThatAreNotFinite) {
  MetricsReading reading;
  reading.families = {{"loss", "Loss.", "", MetricType::kGauge, ""}};
  const double infinity = std::numeric_limits<double>::infinity();
  reading.metrics = {{0, {}, "", "", infinity},
                     {0, {}, "", "", -infinity},
                     {0, {}, "", "", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_EQ(FormatMetrics(reading, MetricsFormat::kPrometheus),
            "# TYPE loss gauge\n# HELP loss Loss.\nloss +Inf\nloss -Inf\nloss NaN\n");
}

}  // namespace
}  // namespace millrace::test
