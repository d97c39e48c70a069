// The metrics of a segment: the common source of the counter file and the metrics file.
// docs/operations.md defines each metric.
#ifndef MILLRACE_TRAIN_SEGMENT_NUMBERS_H_
#define MILLRACE_TRAIN_SEGMENT_NUMBERS_H_

#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"
#include "metrics/counter_file.h"

namespace millrace {

struct Metric {
  const char* name;
  CounterEntry::Kind kind;
  double value;
};

// Always returns the same names in the same order. Thread-safe while the segment exists.
std::vector<Metric> MetricsOf(const NetSegment& segment);
// Metrics of the traffic between this node and one peer of the segment.
std::vector<Metric> MetricsOf(const NetSegment& segment, NodeId peer);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SEGMENT_NUMBERS_H_
