// What `make scale` finds of one shape and size of a cluster, and the file it writes.
#ifndef MILLRACE_BENCH_SCALE_ROW_H_
#define MILLRACE_BENCH_SCALE_ROW_H_

#include <string>
#include <vector>

namespace millrace::scale {

// Bytes are all that passes a node's port. A sweep: every chunk that others master was taken
// once. Rates are those of the slowest segment.
struct Row {
  std::string kind;  // "flat, copies", "flat, multicast", "tree of 32, multicast"
  int nodes = 0;
  int segments = 0;
  int members = 0;            // of the largest segment
  int heartbeat = 0;          // bytes of its heartbeats
  int fits = 0;               // 1: the transport takes them
  int computed = 0;           // 1: not simulated; no spread, no queue
  double sweeps = 0;          // per second
  double merges = 0;          // diffs of each worker and chunk merged, per second
  double bound = 0;           // sweeps per second if positions were all that travelled
  double bound_answered = 0;  // if each were answered with a diff
  // Per sweep, MB: of a node on average, and of the busiest one.
  double sent = 0, received = 0, max_sent = 0, max_received = 0;
  double spread_mean = 0, spread_last = 0;  // ms until a replica, until all have a step
  double queue = 0;                         // MB that the switch held for a port at most
  int replicas_equal = 0;                   // 1: in the end, and each step in them once
  double cpu = 0;                           // seconds that the simulation took
};

// Comma-separated, with a line of names.
std::string ToCsv(const std::vector<Row>& rows);
// Throws Error for what ToCsv does not write; `name` is the file's.
std::vector<Row> FromCsv(const std::string& text, const std::string& name);

}  // namespace millrace::scale

#endif  // MILLRACE_BENCH_SCALE_ROW_H_
