// Measures the time of each layer of a net.
#ifndef MILLRACE_TRAIN_NET_PROFILER_H_
#define MILLRACE_TRAIN_NET_PROFILER_H_

#include <string>

#include "base/clock.h"
#include "nn/net.h"
#include "proto/metrics.pb.h"

namespace millrace::inline train {

// Runs one uncounted forward and backward pass, then `iterations` (at least 1) measured ones, each
// of which logs a line. The net's weights must be bound.
TimeReport TimeNet(BuiltNet* net, int iterations, const Clock& clock);

// A text table: a line per layer, then the sums and the memory.
std::string TimeTable(const TimeReport& report);

// Logs the mean times in the form of `caffe time`.
void LogTimes(const TimeReport& report);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_NET_PROFILER_H_
