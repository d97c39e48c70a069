// Text tables of counter files, with rates between two readings.
#ifndef MILLRACE_METRICS_COUNTER_TABLE_H_
#define MILLRACE_METRICS_COUNTER_TABLE_H_

#include <string>
#include <vector>

#include "millrace/metrics.h"

namespace millrace::inline metrics {

// Shows the changes of the processes in `now` since `before`, `seconds` (> 0) ago. For a process
// that is only in `now`, the rates are its counts since its start, divided by `seconds`. With
// `peers`, a row for each peer follows the row of its segment. Names contain printable text only
// (OneLine).
std::string CounterTable(const std::vector<CounterFileReading>& before,
                         const std::vector<CounterFileReading>& now, double seconds,
                         bool peers = false);

// One line of JSON with the unmodified values by their short names (millrace/metrics.h), for
// programs:
//   [{"pid":7,"user":1000,"title":"LeNet","groups":{"run":{"iteration":100,"loss":0.25}}}]
// Numbers that are not finite are null. Characters that are not printable are escaped; bytes that
// are not UTF-8 become U+FFFD.
std::string CounterFileJson(const std::vector<CounterFileReading>& now);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_COUNTER_TABLE_H_
