#include "linktest/bench_phase.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/node_bits.h"

namespace millrace::inline linktest {
namespace {

constexpr uint32_t kBenchVersion = 1;
constexpr double kLongest = 1e6;  // seconds

// The node takes part or wants to.
bool Active(const BenchStatus& status) { return status.phase() < BenchStatus::DONE; }

// The node has named the participants.
bool Announces(const BenchStatus& status) {
  return !status.participants().empty() && status.phase() != BenchStatus::WAITING && Active(status);
}

bool IsDuration(double seconds) { return seconds >= 0 && seconds <= kLongest; }

}  // namespace

std::string AndList(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

BenchPhases::BenchPhases(const BenchPhasesConfig& config, double now_seconds)
    : config_(config),
      since_(now_seconds),
      leader_(config.node),
      warm_up_seconds_(config.warm_up_seconds),
      seconds_(config.seconds) {}

bool BenchPhases::Accepts(const BenchStatus& status, size_t nodes) {
  if (status.version() != kBenchVersion) return false;
  if (!BenchStatus::Phase_IsValid(status.phase()) || status.asked_node() >= nodes) return false;
  if (status.participants().size() > (nodes + 7) / 8) return false;
  const std::vector<NodeId> named = NodesOf(status.participants());
  if (!named.empty() && named.back() >= nodes) return false;
  return IsDuration(status.seconds()) && IsDuration(status.warm_up_seconds());
}

BenchStatus BenchPhases::status() const {
  BenchStatus status;
  status.set_version(kBenchVersion);
  status.set_phase(phase_);
  if (!is_leader()) return status;
  status.set_participants(BitsOfNodes(participants_));
  status.set_warm_up_seconds(static_cast<float>(warm_up_seconds_));
  status.set_seconds(static_cast<float>(seconds_));
  return status;
}

std::vector<std::string> BenchPhases::AbsentNodes(const Others& others) const {
  std::vector<std::string> names;
  for (size_t node = 0; node < config_.names.size(); ++node) {
    const auto found = others.find(static_cast<NodeId>(node));
    const bool there = found != others.end() && Active(found->second);
    if (node != config_.node && !there) names.push_back(config_.names[node]);
  }
  return names;
}

bool BenchPhases::EnterPhase(Phase phase, double now) {
  phase_ = phase;
  since_ = now;
  return true;
}

bool BenchPhases::Follow(NodeId leader, const BenchStatus& status, double now, bool ready) {
  std::vector<NodeId> nodes = NodesOf(status.participants());
  if (std::find(nodes.begin(), nodes.end(), config_.node) == nodes.end()) {
    throw Error("bench: cluster ", config_.cluster, " is being measured by node ",
                config_.names[leader], ", which did not wait for node ",
                config_.names[config_.node], "; expected to be started with the others");
  }
  if (!ready) return false;
  leader_ = leader;
  participants_ = std::move(nodes);
  warm_up_seconds_ = status.warm_up_seconds();
  seconds_ = status.seconds();
  return EnterPhase(BenchStatus::READY, now);
}

// Follows a leader that has already named the participants. Before that, the lowest present node
// becomes the leader.
bool BenchPhases::Begin(double now, const Others& others, bool ready) {
  std::vector<NodeId> there = {config_.node};
  for (const auto& [node, status] : others) {
    if (Announces(status)) return Follow(node, status, now, ready);
    if (Active(status)) there.push_back(node);
  }
  std::sort(there.begin(), there.end());
  const bool all = there.size() == config_.names.size();
  if (there.front() != config_.node) return false;
  if (!all && now - since_ < config_.wait_seconds) return false;
  if (there.size() == 1) {
    throw Error("bench: no other node of cluster ", config_.cluster, " came within ",
                config_.wait_seconds, " s: expected ", AndList(AbsentNodes(others)));
  }
  if (!ready) return false;
  participants_ = std::move(there);
  return EnterPhase(BenchStatus::READY, now);
}

// Whether the phase is complete: on the leader for all participants, elsewhere because the leader
// has advanced.
bool BenchPhases::CanAdvance(double now, const Others& others, bool ready) const {
  // Followers wait three times as long, so that the leader can time out on another node first.
  const double timeout = config_.timeout_seconds * (is_leader() ? 1 : 3);
  const bool timed_out = now - since_ > timeout;
  if (!is_leader()) {
    const auto leader = others.find(leader_);
    if (leader == others.end() || leader->second.phase() == BenchStatus::STOPPED || timed_out) {
      throw Error("bench: node ", config_.names[leader_], ", which collects the reports, ",
                  timed_out ? "does not respond any more" : "has gone");
    }
    return leader->second.phase() > phase_;
  }
  if (phase_ == BenchStatus::REPORTED) return timed_out || ready;
  return timed_out || std::all_of(participants_.begin(), participants_.end(), [&](NodeId node) {
           const auto other = others.find(node);
           return node == config_.node || other == others.end() || other->second.phase() >= phase_;
         });
}

bool BenchPhases::Step(double now, const Others& others, bool ready) {
  switch (phase_) {
    case BenchStatus::WAITING:
      return Begin(now, others, ready);
    case BenchStatus::READY:
    case BenchStatus::MEASURED:
    case BenchStatus::REPORTED:
      return CanAdvance(now, others, ready) && EnterPhase(static_cast<Phase>(phase_ + 1), now);
    case BenchStatus::LOADED:
      if (measuring_) return now - since_ >= seconds_ && EnterPhase(BenchStatus::MEASURED, now);
      if (now - since_ < warm_up_seconds_) return false;
      measuring_ = true;
      since_ = now;
      return false;
    case BenchStatus::QUIET:
      return (ready || now - since_ > config_.timeout_seconds / 3) &&
             EnterPhase(BenchStatus::REPORTED, now);
    case BenchStatus::DONE:
    case BenchStatus::STOPPED:
      return false;
  }
  return false;
}

PeerTable::PeerTable(size_t nodes, NodeId self, double peer_timeout_seconds)
    : nodes_(nodes), self_(self), peer_timeout_seconds_(peer_timeout_seconds) {}

void PeerTable::Take(NodeId node, std::span<const std::byte> bytes, double now_seconds) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (node == self_ || node >= nodes_) return;
  const auto found = last_.find(node);
  if (found != last_.end() && found->second.bytes == text) return;
  Last last{{}, std::string(text), now_seconds};
  if (!last.status.ParseFromString(last.bytes) || !BenchPhases::Accepts(last.status, nodes_))
    return;
  last_[node] = std::move(last);
}

BenchPhases::Others PeerTable::present(double now_seconds) const {
  BenchPhases::Others others;
  for (const auto& [node, last] : last_) {
    if (now_seconds - last.changed <= peer_timeout_seconds_) others[node] = last.status;
  }
  return others;
}

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
