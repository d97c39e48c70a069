#ifndef MILLRACE_LINKTEST_RESULT_H_
#define MILLRACE_LINKTEST_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/node_id.h"
#include "proto/bench.pb.h"
#include "topology/topology.h"

namespace millrace::inline linktest {

// Computes the result of a measurement from the nodes' reports: throughput, loss and cost for each
// pair of nodes and each segment. Pure functions.

// Input of the computation. Reports come from the network: each must satisfy FitsTopology().
struct Measurement {
  int64_t weights = 0;
  double warm_up_seconds = 0, seconds = 0;
  std::vector<std::string> missing;  // nodes that did not come
  std::vector<NodeId> participants;  // ascending
  std::map<NodeId, BenchReport> reports;
};

// Whether `report` is plausible for `node`: its segments are segments of the node, its peers are
// nodes of these, each occurs once, and all numbers are finite and not negative.
bool FitsTopology(const BenchReport& report, NodeId node, const Topology& topology);

// Segments that no participant reports are left out. A value that only one node of a pair can
// supply is absent if that node did not report.
BenchResult ResultOf(const Topology& topology, const Measurement& measurement);

// The result as a JSON object with the field names of bench.proto, on one line with a line break.
// Unknown fields are absent.
std::string ResultJson(const BenchResult& result);

// The text output of `millrace bench`.

// Summary lines, then for each segment a table of its flows between nodes and a table of its ends,
// then a table of the nodes. At most 100 columns unless names exceed 12 characters. "-" stands for
// an unknown value.
std::string BenchTable(const BenchResult& result);

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_RESULT_H_
