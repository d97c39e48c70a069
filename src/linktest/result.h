// From what the nodes of a cluster report to what an operator asks: what each pair of
// nodes moves each way, what is lost on the way, what it costs. Pure functions.
#ifndef MILLRACE_LINKTEST_RESULT_H_
#define MILLRACE_LINKTEST_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/node_id.h"
#include "proto/bench.pb.h"
#include "topology/topology.h"

namespace millrace {

// What was measured; reports come from the network, so only those with FitsTopology()
// may be in here.
struct Measurement {
  int64_t weights = 0;
  double warm_up_seconds = 0, seconds = 0;
  std::vector<std::string> missing;  // nodes that did not come
  std::vector<NodeId> participants;  // ascending
  std::map<NodeId, BenchReport> reports;
};

// Whether this can be a report of `node`: its segments are those of the node, its peers
// theirs, each once, and all numbers are finite and not negative.
bool FitsTopology(const BenchReport& report, NodeId node, const Topology& topology);

// Of segments that no participant reports, nothing. What only one of two nodes could say
// is left out where it did not report.
BenchResult ResultOf(const Topology& topology, const Measurement& measurement);

// One line, ended: the result as a JSON object with the names of bench.proto; fields that
// are not known are absent.
std::string ResultJson(const BenchResult& result);

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_RESULT_H_
