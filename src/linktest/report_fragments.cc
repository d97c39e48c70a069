#include "linktest/report_fragments.h"

#include <algorithm>

namespace millrace::inline linktest {

ReportWriter::ReportWriter(NodeId node, const BenchReport& report)
    : node_(node), bytes_(report.SerializeAsString()) {}

void ReportWriter::Write(const BenchStatus* leader, BenchStatus* status) const {
  const auto pages = static_cast<uint32_t>(bytes_.size() / kReportPageBytes + 1);
  const bool asked = leader != nullptr && leader->asked_node() == node_;
  const uint32_t page = asked ? std::min(leader->asked_page(), pages - 1) : 0;
  status->set_pages(pages);
  status->set_page(page);
  status->set_page_bytes(bytes_.substr(page * kReportPageBytes, kReportPageBytes));
}

void ReportReader::Take(NodeId node, const BenchStatus& status) {
  Partial& partial = partials_[node];
  if (partial.broken || reports_.count(node) > 0) return;
  if (partial.next == 0) partial.pages = status.pages();
  if (status.pages() != partial.pages || status.pages() > kMaxReportPages) {
    partial.broken = true;
    return;
  }
  if (status.page() != partial.next) return;  // it has not seen the request yet
  partial.bytes += status.page_bytes();
  if (++partial.next < partial.pages) return;
  BenchReport report;
  partial.broken = !report.ParseFromString(partial.bytes);
  if (!partial.broken) reports_[node] = std::move(report);
}

bool ReportReader::Read(const BenchPhases::Others& others, const std::vector<NodeId>& participants,
                        NodeId self) {
  bool whole = true;
  asked_.reset();
  for (const NodeId node : participants) {
    const auto other = others.find(node);
    if (node == self || other == others.end() || other->second.phase() > BenchStatus::REPORTED) {
      continue;
    }
    if (other->second.phase() < BenchStatus::REPORTED) {
      whole = false;
      continue;
    }
    Take(node, other->second);
    if (reports_.count(node) > 0 || partials_[node].broken) continue;
    if (!asked_) asked_ = node;
    whole = false;
  }
  return whole;
}

void ReportReader::Ask(BenchStatus* status) const {
  if (!asked_) return;
  status->set_asked_node(*asked_);
  status->set_asked_page(partials_.at(*asked_).next);
}

}  // namespace millrace::inline linktest
