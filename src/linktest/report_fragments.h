// Transfers reports in pages, because gossip messages are short and reports grow with the cluster.
// In REPORTED the leader finds the first page of each node, and requests the others one by one: it
// publishes a node and a page number (BenchStatus::asked_node and asked_page), and that node
// publishes that page instead of the first.
//
// Not thread-safe.
#ifndef MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_
#define MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "linktest/bench_phase.h"
#include "millrace/node_id.h"
#include "proto/bench.pb.h"

namespace millrace::inline linktest {

inline constexpr size_t kReportPageBytes = 800;
inline constexpr size_t kMaxReportPages = 1000;

// The reporting node's side.
class ReportWriter {
 public:
  ReportWriter(NodeId node, const BenchReport& report);

  // Adds a page to the state that this node publishes: the page that the leader requests from this
  // node, else the first. `leader`: the leader's state, or null.
  void Write(const BenchStatus* leader, BenchStatus* status) const;

 private:
  const NodeId node_;
  std::string bytes_;
};

// The collecting node's side.
class ReportReader {
 public:
  // Takes a page of each of `participants` that is in REPORTED. Returns true if the reports of all
  // participants are complete, except `self` and nodes that have gone. A malformed report counts as
  // gone.
  bool Read(const BenchPhases::Others& others, const std::vector<NodeId>& participants,
            NodeId self);
  // Adds the next page request to `status`.
  void Ask(BenchStatus* status) const;

  // Complete reports as received; their contents are not validated.
  const std::map<NodeId, BenchReport>& reports() const { return reports_; }

 private:
  struct Partial {
    std::string bytes;
    uint32_t pages = 0;
    uint32_t next = 0;    // page
    bool broken = false;  // malformed; further pages are ignored
  };
  void Take(NodeId node, const BenchStatus& status);

  std::map<NodeId, Partial> partials_;
  std::map<NodeId, BenchReport> reports_;
  std::optional<NodeId> asked_;  // first participant with missing pages
};

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_
