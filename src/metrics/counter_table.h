// Boards as a table for people: rates between two looks.
#ifndef MILLRACE_METRICS_COUNTER_TABLE_H_
#define MILLRACE_METRICS_COUNTER_TABLE_H_

#include <string>
#include <vector>

#include "metrics/counter_file.h"

namespace millrace {

// What the processes on `now` did since `before`, `seconds` (> 0) ago; a process that is
// on `now` only shows rates since it began to count, over that time. `peers`: below each
// segment a line for each of its peers. Names hold printable text only (OneLine).
std::string BoardTable(const std::vector<CounterFileReading>& before,
                       const std::vector<CounterFileReading>& now, double seconds,
                       bool peers = false);

// For programs: one line of JSON, with what is on the boards as it is,
//   [{"pid":7,"user":1000,"title":"LeNet","groups":{"run":{"iteration":100,"loss":0.25}}}]
// Numbers that are not finite are null; characters that are not printable are escaped, bytes
// that are no UTF-8 are U+FFFD.
std::string BoardJson(const std::vector<CounterFileReading>& now);

}  // namespace millrace

#endif  // MILLRACE_METRICS_COUNTER_TABLE_H_
