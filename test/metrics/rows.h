// Metrics rows for tests.
#ifndef MILLRACE_TEST_METRICS_ROWS_H_
#define MILLRACE_TEST_METRICS_ROWS_H_

#include <cstdint>

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

}  // namespace millrace::test

#endif  // MILLRACE_TEST_METRICS_ROWS_H_
