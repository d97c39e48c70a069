// How the nodes of a cluster go through a measurement together: who takes part, when
// all of them are quiet, when they load their segments, when the reports are there.
//
// Pure logic: it is given the time and what the other nodes have published, and says
// what this node is to do and what it publishes. The lowest node that is there leads:
// it says who takes part, and goes on when all of these have done their part; the
// others follow it.
//
//   stage      what a node does in it             goes on when
//   WAITING    nothing                            all are there, or enough was waited: the
//                                                 node that leads says who takes part
//   READY      reads its counters, at rest        all are
//   LOADED     load on: warms up, measures        its own time is up
//   MEASURED   load off                           all have measured
//   QUIET      lets what is under way arrive      nothing moves any more
//   REPORTED   reads its counters, at rest        all have reported
//   DONE       leaves
//
// Counters that two nodes compare (sent by one, received by the other) are read in READY
// and in REPORTED, when no frames are under way: between these two, frames that are
// missing are lost. Rates are measured in LOADED.
//
// Not thread-safe.
#ifndef MILLRACE_LINKTEST_BENCH_PHASE_H_
#define MILLRACE_LINKTEST_BENCH_PHASE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/node_id.h"
#include "proto/bench.pb.h"

namespace millrace {

struct BenchPhasesConfig {
  std::string cluster;             // its name, for messages
  NodeId node = 0;                 // this one
  std::vector<std::string> names;  // of the cluster's nodes, by id
  double wait_seconds = 60;        // for nodes that are not there
  double warm_up_seconds = 1;
  double seconds = 5;
  // How long the others may take to come to a stage, beyond what it takes by itself.
  double patience_seconds = 30;
};

class BenchPhases {
 public:
  using Stage = BenchStatus::Stage;
  // By node id; this node's own is not among them. A node that has gone is left out.
  using Others = std::map<NodeId, BenchStatus>;

  BenchPhases(const BenchPhasesConfig& config, double now_seconds);

  // Goes at most one stage on; true if it did: then the caller does what the new stage()
  // asks, publishes status(), and calls again. `others`: as they published it, with
  // Accepts() true. `ready`: in WAITING and QUIET, nothing has moved on this node's
  // segments for a while; in REPORTED, if this node leads, the reports of all that have
  // not gone are here. Throws Error if the measurement cannot be: nobody else is there, it
  // is under way without this node, the node that leads has gone.
  bool Step(double now_seconds, const Others& others, bool ready);

  Stage stage() const { return stage_; }
  // In LOADED, once Step has seen that the warm-up is over; then the stage lasts as long as
  // is to be measured, however late this was seen.
  bool measures() const { return stage_ == BenchStatus::LOADED && measuring_; }
  // What this node publishes, but for its beat, and what has to do with pages.
  BenchStatus status() const;
  // From READY on.
  NodeId leader() const { return leader_; }
  bool is_leader() const { return leader_ == config_.node; }
  // Those that take part, ascending, this node included; empty in WAITING.
  const std::vector<NodeId>& participants() const { return participants_; }
  // Of the topology's nodes, those that are not there: the names, in order.
  std::vector<std::string> Missing(const Others& others) const;
  double warm_up_seconds() const { return warm_up_seconds_; }
  double seconds() const { return seconds_; }

  // Whether `status`, which came from the node `from`, is of this program and makes sense
  // in a cluster of so many nodes; what the functions above are given has to.
  static bool Accepts(const BenchStatus& status, size_t nodes);

 private:
  bool Begin(double now, const Others& others, bool ready);
  bool Follow(NodeId leader, const BenchStatus& status, double now, bool ready);
  bool MayGoOn(double now, const Others& others, bool ready) const;
  bool Go(Stage stage, double now);

  const BenchPhasesConfig config_;
  Stage stage_ = BenchStatus::WAITING;
  double since_;  // when the stage began; in LOADED, when measuring did
  bool measuring_ = false;
  NodeId leader_;
  std::vector<NodeId> participants_;
  double warm_up_seconds_, seconds_;
};

// What other nodes have published last. A node that has published nothing new for a
// while, though it should, has gone.
class PeerTable {
 public:
  PeerTable(size_t nodes, NodeId self, double silence_seconds);

  // Takes what `node` has as its newest gossip message; what is not a status is left out.
  void Take(NodeId node, std::span<const std::byte> bytes, double now_seconds);
  // Those that have not gone.
  BenchPhases::Others there(double now_seconds) const;

 private:
  struct Last {
    BenchStatus status;
    std::string bytes;
    double changed = 0;
  };
  const size_t nodes_;
  const NodeId self_;
  const double silence_seconds_;
  std::map<NodeId, Last> last_;
};

// "a, b and c".
std::string AndList(const std::vector<std::string>& names);

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_BENCH_PHASE_H_
