// How long each layer of a net takes.
#ifndef MILLRACE_TRAIN_NET_PROFILER_H_
#define MILLRACE_TRAIN_NET_PROFILER_H_

#include <string>

#include "base/clock.h"
#include "nn/net.h"
#include "proto/metrics.pb.h"

namespace millrace {

// Runs `iterations` (at least 1) forward and backward passes after one that
// does not count. The net's weights are bound.
TimeReport TimeNet(Net* net, int iterations, const Clock& clock);

// A table for people: a line per layer, then the sums.
std::string TimeTable(const TimeReport& report);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_NET_PROFILER_H_
