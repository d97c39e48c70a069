// Metrics files of any content: rows or an Error, never a crash. Rows are unchanged after they are
// written and read again, and can be plotted.
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include "base/error.h"
#include "metrics/figure.h"
#include "metrics/metrics_writer.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

namespace {

void Draw(const std::vector<MetricsRow>& rows) {
  try {
    FigureScript(PlotRuns({{"run", rows}, {"the same", rows}}), "run.svg");
  } catch (const Error&) {
    // The input has nothing to plot.
  }
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string run =
      R"({"time":0,"iter":0,"run":{"name":"LeNet","solvers":2,"max_iter":100,"seed":"7"}})";
  const std::string train = R"({"time":1.5,"iter":10,"train":{"loss":0.3,"learning_rate":0.01}})";
  const std::string test =
      R"({"time":2,"iter":20,"test":{"net":0,"outputs":{"accuracy":0.9,"loss":"NaN"}}})";
  return {run + "\n" + train + "\n" + test + "\n", train + "\n", test,
          run + "\n" + test + "\n" + run + "\n" + train + "\n" + test + "\n"};
}

bool Target(const std::string& input) {
  std::vector<MetricsRow> rows;
  try {
    rows = ParseMetrics(input, "m");
  } catch (const Error&) {
    return true;
  }
  google::protobuf::util::MessageDifferencer differencer;
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  differencer.set_field_comparator(&comparator);
  for (const MetricsRow& row : rows) {
    if (!differencer.Compare(ParseMetricsLine(MetricsLine(row), "m"), row)) return false;
  }
  // Plots are slow, so only about one of sixteen inputs is plotted.
  if (input.size() % 16 == 0) Draw(rows);
  return true;
}

}  // namespace millrace::fuzz
