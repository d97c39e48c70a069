// Metrics rows and runs for tests.
#ifndef MILLRACE_TEST_METRICS_ROWS_H_
#define MILLRACE_TEST_METRICS_ROWS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "metrics/run_curves.h"
#include "proto/metrics.pb.h"

namespace millrace::test {

inline MetricsRow RunRow(int64_t iter, int solvers) {
  MetricsRow row;
  row.set_time(0);
  row.set_iter(iter);
  row.mutable_run()->set_solvers(solvers);
  return row;
}

inline MetricsRow TrainRow(double time, int64_t iter, double loss) {
  MetricsRow row;
  row.set_time(time);
  row.set_iter(iter);
  row.mutable_train()->set_loss(loss);
  return row;
}

inline MetricsRow TestRow(double time, int64_t iter, double accuracy, double loss, int net = 0) {
  MetricsRow row;
  row.set_time(time);
  row.set_iter(iter);
  row.mutable_test()->set_net(net);
  (*row.mutable_test()->mutable_outputs())["accuracy"] = accuracy;
  (*row.mutable_test()->mutable_outputs())["loss"] = loss;
  return row;
}

// A loss that falls from 2.3 to about 0.025, with ten tests.
inline millrace::Run TypicalRun(const std::string& name, int solvers, int rows = 100) {
  millrace::Run run{name, {RunRow(0, solvers)}};
  for (int i = 1; i <= rows; ++i) {
    const double loss = 2.3 * std::exp(-5.0 * i / rows) + 0.01;
    run.rows.push_back(TrainRow(0.5 * i, 10 * i, loss * (1 + 0.3 * std::sin(37.0 * i))));
    if (i % (rows / 10) == 0) {
      run.rows.push_back(TestRow(0.5 * i + 0.1, 10 * i, 0.99 - 0.3 * loss, loss));
    }
  }
  return run;
}

inline constexpr double kOddNumbers[] = {0,
                                         -1,
                                         std::numeric_limits<double>::quiet_NaN(),
                                         std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity(),
                                         std::numeric_limits<double>::max(),
                                         1e-308,
                                         -std::numeric_limits<double>::max(),
                                         5e-324,
                                         1};

// A run with such numbers beside usual ones.
inline millrace::Run OddRun(double time, double value) {
  return {"odd",
          {RunRow(0, 1), TrainRow(time, 1, value), TestRow(time, 2, value, value),
           TrainRow(1, INT64_MAX, 1), TrainRow(2, INT64_MIN, value), RunRow(1, -5),
           TestRow(time, 3, 0.5, value)}};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_METRICS_ROWS_H_
