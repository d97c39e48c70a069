// A report in pages: gossip messages are short, and reports grow with the cluster. The node that
// leads finds everybody's first page in REPORTED, and asks for the others one by one: it
// names a node and a page (BenchStatus::asked_node and asked_page), which that node then
// publishes instead of the first.
//
// Not thread-safe.
#ifndef MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_
#define MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/node_id.h"
#include "linktest/bench_phase.h"
#include "proto/bench.pb.h"

namespace millrace {

inline constexpr size_t kReportPageBytes = 800;
inline constexpr size_t kMostReportPages = 1000;

// Of the node that reports.
class ReportWriter {
 public:
  ReportWriter(NodeId node, const BenchReport& report);

  // Adds the page that the node that leads asks for, or the first, to what this node
  // publishes.
  void Write(const BenchStatus* leader, BenchStatus* status) const;

 private:
  const NodeId node_;
  std::string bytes_;
};

// Of the node that collects.
class ReportReader {
 public:
  // Takes a page of each of `participants` that is in REPORTED. True: whole reports of all
  // but `self` and those that have gone are here. A report that is not one counts as gone.
  bool Read(const BenchPhases::Others& others, const std::vector<NodeId>& participants,
            NodeId self);
  // Adds what this node asks for next.
  void Ask(BenchStatus* status) const;

  // Those that are whole, as they came: nobody has looked at what they say.
  const std::map<NodeId, BenchReport>& reports() const { return reports_; }

 private:
  struct Partial {
    std::string bytes;
    uint32_t pages = 0;
    uint32_t next = 0;    // page
    bool broken = false;  // not a report, whatever comes
  };
  void Take(NodeId node, const BenchStatus& status);

  std::map<NodeId, Partial> partials_;
  std::map<NodeId, BenchReport> reports_;
  std::optional<NodeId> asked_;  // the first of those that have more pages
};

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_REPORT_FRAGMENTS_H_
