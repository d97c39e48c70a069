// Helpers shared by the tests of benchmarks.
#ifndef MILLRACE_TEST_LINKTEST_MEASURE_SUPPORT_H_
#define MILLRACE_TEST_LINKTEST_MEASURE_SUPPORT_H_

#include <map>
#include <string>
#include <vector>

#include "linktest/bench_phase.h"
#include "linktest/result.h"
#include "test/support/support.h"
#include "topology/topology.h"

namespace millrace::test {

// Nodes a, b and c. Segment `lan` joins all of them and carries the lower three quarters of the
// weights at up to 800 Mbit/s. `side` joins a and b, `back` joins b and c; these carry the rest.
inline Topology Three() {
  return ParseTopology(
      "name: 'three'\n"
      "node { name: 'a' address: '10.0.0.1' }\n"
      "node { name: 'b' address: '10.0.0.2' }\n"
      "node { name: 'c' address: '10.0.0.3' }\n"
      "segment { name: 'lan' transport: 'udp' port: 7001 range_end: 0.75 max_mbps: 800 }\n"
      "segment { name: 'side' transport: 'udp' port: 7002 range_begin: 0.75 node: 'a' node: 'b'\n"
      "          codec: 'int8' }\n"
      "segment { name: 'back' transport: 'udp' port: 7003 range_begin: 0.75 node: 'b' node: 'c' "
      "}\n",
      "f", {"udp"});
}

// Adds a node's report of its endpoint of `segment`: it sent each of `peers` 1000 frames of 1000
// bytes in 2 s and 1000 more before and after, and received 10 fewer.
inline void AddEnd(uint32_t segment, const std::vector<uint32_t>& peers, BenchReport* report) {
  BenchEnd* end = report->add_end();
  end->set_segment(segment);
  end->set_chunk_weights(100);
  end->set_link_megabits(1000);
  end->set_wire_bytes_out(50'000'000 * peers.size());
  end->set_bytes_in(50'000'000 * peers.size());
  end->set_sweeps(30);
  end->set_thread_cpu_seconds(0.5);
  for (const uint32_t node : peers) {
    BenchPeer* peer = end->add_peer();
    peer->set_node(node);
    peer->set_frames_sent(1000);
    peer->set_bytes_sent(1'000'000);
    peer->set_positions_taken(400);
    peer->set_diffs_merged(200);
    peer->set_resends(6);
    peer->set_all_frames_sent(2000);
    peer->set_all_frames_received(1990);
    peer->set_round_trip_ms_p50(1.5);
    peer->set_round_trip_ms_p99(12.25);
  }
}

// Complete report of node 0, 1 or 2 of Three().
inline BenchReport ReportOfNode(NodeId node) {
  BenchReport report;
  report.set_seconds(2);
  report.set_process_cpu_seconds(1.25);
  report.set_load_cpu_seconds(0.25);
  AddEnd(0,
         node == 0   ? std::vector<uint32_t>{1, 2}
         : node == 1 ? std::vector<uint32_t>{0, 2}
                     : std::vector<uint32_t>{0, 1},
         &report);
  if (node == 0) AddEnd(1, {1}, &report);
  if (node == 1) {
    AddEnd(1, {0}, &report);
    AddEnd(2, {2}, &report);
  }
  if (node == 2) AddEnd(2, {1}, &report);
  return report;
}

inline Measurement Measured() {
  Measurement measurement;
  measurement.weights = 4000;
  measurement.warm_up_seconds = 1;
  measurement.seconds = 2;
  measurement.participants = {0, 1, 2};
  for (NodeId node : {0, 1, 2}) measurement.reports[node] = ReportOfNode(node);
  return measurement;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_LINKTEST_MEASURE_SUPPORT_H_
