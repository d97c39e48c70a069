// What a segment tells those who watch a run, as named numbers: the one list from which
// both the board and the metrics file are written. docs/operations.md says what each of
// them means.
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

// Always the same names in the same order. May be called from any thread while the segment
// lives.
std::vector<Metric> MetricsOf(const NetSegment& segment);
// Of what passes between this node and one of the segment's peers.
std::vector<Metric> MetricsOf(const NetSegment& segment, NodeId peer);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SEGMENT_NUMBERS_H_
