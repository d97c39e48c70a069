#ifndef MILLRACE_LINKTEST_BENCH_PHASE_H_
#define MILLRACE_LINKTEST_BENCH_PHASE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/node_id.h"
#include "proto/bench.pb.h"

namespace millrace::inline linktest {

// The phases of a cluster measurement, which all nodes pass together: who takes part, when the
// segments are quiescent, when they are loaded, and when the reports are complete.
//
// Pure logic: the input is the time and the other nodes' published states; the output is this
// node's phase and the state that it publishes. The lowest present node is the leader. It names the
// participants, and advances when all of them have completed a phase; the others follow.
//
//   phase      action of a node                   advances when
//   WAITING    none                               all nodes are present, or wait_seconds are over;
//                                                 the leader names the participants
//   READY      reads its counters, quiescent      all participants are in the phase
//   LOADED     load on: warms up, measures        its own time has passed
//   MEASURED   load off                           all participants are in the phase
//   QUIET      waits for frames in flight         its segments are quiescent
//   REPORTED   reads its counters, quiescent      the leader has all reports
//   DONE       leaves
//
// Counters that are compared between two nodes (frames sent by one, received by the other) are read
// in READY and in REPORTED, when no frames are in flight: frames missing between these two readings
// are lost. Rates are measured in LOADED.
//
// Not thread-safe.
struct BenchPhasesConfig {
  std::string cluster;             // name, for messages
  NodeId node = 0;                 // this node
  std::vector<std::string> names;  // of the cluster's nodes, by id
  double wait_seconds = 60;        // time to wait for absent nodes
  double warm_up_seconds = 1;
  double seconds = 5;
  // Time that other nodes may need to reach a phase, beyond the phase's own duration.
  double timeout_seconds = 30;
};

class BenchPhases {
 public:
  using Phase = BenchStatus::Phase;
  // Published states by node id, without this node and without nodes that have gone.
  using Others = std::map<NodeId, BenchStatus>;

  BenchPhases(const BenchPhasesConfig& config, double now_seconds);

  // Advances by at most one phase. On true the caller performs the action of the new phase(),
  // publishes status(), and calls again. `others`: published states for which Accepts() is true.
  // `ready`: in WAITING and QUIET, this node's segments are quiescent; in REPORTED on the leader,
  // the reports of all participants that have not gone are complete. Throws Error if the
  // measurement is impossible: no other node is present, the others already measure without this
  // node, or the leader has gone.
  bool Step(double now_seconds, const Others& others, bool ready);

  Phase phase() const { return phase_; }
  // Whether to measure now: in LOADED, once Step has seen the end of the warm-up. From that moment
  // the phase lasts `seconds`, however late it came.
  bool measures() const { return phase_ == BenchStatus::LOADED && measuring_; }
  // The state that this node publishes, without its beat and its report pages.
  BenchStatus status() const;
  // Valid from READY on.
  NodeId leader() const { return leader_; }
  bool is_leader() const { return leader_ == config_.node; }
  // All participants, ascending, including this node; empty in WAITING.
  const std::vector<NodeId>& participants() const { return participants_; }
  // Names of the topology's nodes that are absent, by id.
  std::vector<std::string> AbsentNodes(const Others& others) const;
  double warm_up_seconds() const { return warm_up_seconds_; }
  double seconds() const { return seconds_; }

  // Whether `status` has this program's version and valid values for a cluster of `nodes` nodes.
  // The functions above require this of their input.
  static bool Accepts(const BenchStatus& status, size_t nodes);

 private:
  bool Begin(double now, const Others& others, bool ready);
  bool Follow(NodeId leader, const BenchStatus& status, double now, bool ready);
  bool CanAdvance(double now, const Others& others, bool ready) const;
  bool EnterPhase(Phase phase, double now);

  const BenchPhasesConfig config_;
  Phase phase_ = BenchStatus::WAITING;
  double since_;  // start of the phase; in LOADED, of the measurement
  bool measuring_ = false;
  NodeId leader_;
  std::vector<NodeId> participants_;
  double warm_up_seconds_, seconds_;
};

// The last published state of each other node. A node that has published nothing new for
// `peer_timeout_seconds` counts as gone.
class PeerTable {
 public:
  PeerTable(size_t nodes, NodeId self, double peer_timeout_seconds);

  // Stores the newest gossip message of `node`. Ignores messages that are not a valid status.
  void Take(NodeId node, std::span<const std::byte> bytes, double now_seconds);
  // States of the nodes that have not gone.
  BenchPhases::Others present(double now_seconds) const;

 private:
  struct Last {
    BenchStatus status;
    std::string bytes;
    double changed = 0;
  };
  const size_t nodes_;
  const NodeId self_;
  const double peer_timeout_seconds_;
  std::map<NodeId, Last> last_;
};

// "a, b and c".
std::string AndList(const std::vector<std::string>& names);

// Transfers reports in pages, because gossip messages are short and reports grow with the cluster.
// In REPORTED the leader finds the first page of each node, and requests the others one by one: it
// publishes a node and a page number (BenchStatus::asked_node and asked_page), and that node
// publishes that page instead of the first.
//
// Not thread-safe.
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

#endif  // MILLRACE_LINKTEST_BENCH_PHASE_H_
