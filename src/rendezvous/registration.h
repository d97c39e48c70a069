// A node's place in the registry of an elastic run: it gets an id, learns the addresses of the
// other nodes, and learns whether the run begins with its weights. Pure logic on an injected store
// and injected time; rendezvous.h runs it.
//
// Keys of a run, below its prefix. The lease of a node holds its keys; the others stay.
//
//   node/ID         lease  "INSTANCE ADDRESS": a process and its host
//   control/ID      lease  HOST:PORT of the process's control service, if it has one
//   joined/ID       lease  INSTANCE: the process has the weights of the run
//   held/ID/HOLDER  lease  INSTANCE of HOLDER, which hears node ID without a registration
//   used/ID                "INSTANCE ADDRESS" of the last process that was registered with this id
//   run                    INSTANCE: the process whose weights begin the run; "INSTANCE ended" once
//                          a node has completed it
//
// An id is free if it has neither node/ID nor held/ID/*. A newcomer takes the lowest free id that
// was never used. Used ids are given away last, and only after they have been free for a while: a
// node that can reach its peers but not the registry loses its lease, and its peers then hold its
// id. Whoever creates `run` begins the run. The key stays while a node may be training, so that no
// second run begins beside nodes that cannot reach the registry. Nodes that wait for a run that has
// ended end as well, the last one with the key; processes that start after the end begin another.
#ifndef MILLRACE_RENDEZVOUS_REGISTRATION_H_
#define MILLRACE_RENDEZVOUS_REGISTRATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/node_id.h"
#include "rendezvous/registry_store.h"

namespace millrace::inline rendezvous {

struct RegistrationConfig {
  std::string prefix = "";     // of the run's keys, such as "run/"
  int min_nodes = 1;           // registered when a run begins
  int max_nodes = 2;           // ids are below
  std::string instance = "";   // identifies this process: random, without spaces
  std::string address = "";    // this node's host, as the others reach it
  std::string control = "";    // "host:port" of its control service, likewise; "": none
  int64_t lease_seconds = 10;  // at least 2
  int64_t restart_ns = -1;  // a run of which no node is registered for so long is over; -1: never
};

// What one node has registered.
struct RegisteredNode {
  std::string instance, address;
  bool operator==(const RegisteredNode&) const = default;
};
// Value of node/ID. None if it is malformed.
std::optional<RegisteredNode> ParseRegisteredNode(const std::string& value);
std::string RegisteredNodeText(const RegisteredNode& node);

// The keys of a run, parsed.
struct RegistryView {
  struct Node {
    std::optional<RegisteredNode> registered;
    int64_t modified = 0;  // of node/ID; 0: there is none
    std::string control;   // "host:port"; "": no control service
    bool has_joined = false;
    std::optional<RegisteredNode> last;  // of used/ID
    std::set<NodeId> holders;
    bool is_free() const { return modified == 0 && holders.empty(); }
  };
  std::vector<Node> nodes;   // by id
  std::string run;           // its instance
  bool run_ended = false;    // a node has completed it
  int64_t run_modified = 0;  // 0: no run has begun

  int registered() const;
  bool anyone_joined() const;
};
// Ignores keys and values that are malformed, and ids from `max_nodes` on.
RegistryView ParseRegistry(const std::string& prefix, int max_nodes,
                           const std::vector<RegistryEntry>& entries);

// Not thread-safe.
class Registration {
 public:
  // `store` outlives this object.
  Registration(const RegistrationConfig& config, RegistryStore* store);

  // Makes at most one call of the store. Returns when to call it again.
  int64_t Step(int64_t now_ns);

  // Frames of these nodes have arrived since the last call.
  void AddHeard(const std::vector<NodeId>& nodes) { heard_.insert(nodes.begin(), nodes.end()); }
  // This node has the weights of the run.
  void SetJoined() { joined_ = true; }
  // From now on Step ends the registration, and the run if no node remains. `completed`: the run is
  // complete, which nodes that wait for it learn. Step is called until left(); if the registry does
  // not answer, the lease ends by itself.
  void BeginLeave(bool completed) {
    if (std::exchange(leaving_, true)) return;
    completed_ = completed;
    next_read_ = 0;
  }

  // This node's id, from the first registration on; it never changes.
  std::optional<NodeId> node() const { return node_; }
  // The run begins with this node's weights.
  bool may_bootstrap() const { return may_bootstrap_; }
  // The run has ended, and this node never had its weights, so it has to end.
  bool run_ended() const { return run_ended_; }
  bool left() const { return left_; }
  // Newest address of each node, by id; "": none yet, and of this node. A node that is not
  // registered any more keeps its address.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Not empty: another process has this node's id, so this one has to end.
  const std::string& conflict() const { return conflict_; }

  // Lines for the log since the last call.
  struct Line {
    bool is_warning;
    std::string text;
  };
  std::vector<Line> TakeLines();

 private:
  // A commit that is due.
  struct Action {
    std::vector<RegistryCondition> conditions;
    std::vector<RegistryChange> changes;
    std::function<void()> done;  // after success
  };

  int64_t Call(int64_t now_ns);
  void Grant(int64_t now_ns);
  void KeepAlive(int64_t now_ns);
  void Read(int64_t now_ns);
  void Leave(int64_t now_ns);
  void Follow(int64_t now_ns);
  void FollowAddresses();
  void FollowAbsent();
  std::optional<Action> NextAction(int64_t now_ns);
  std::optional<Action> Register(int64_t now_ns);
  std::optional<NodeId> ChooseId(int64_t now_ns);
  std::optional<Action> RemoveDuplicate();
  std::optional<Action> PublishJoined();
  std::optional<Action> Hold();
  std::optional<Action> Claim(int64_t now_ns);
  bool IsDeserted(int64_t now_ns);
  bool IsReplaceable(int64_t now_ns);
  std::string Key(const char* kind, NodeId node) const;
  std::string RunKey() const { return config_.prefix + "run"; }
  RegistryView::Node& Own() { return view_.nodes[*node_]; }
  bool IsMine(const RegistryView::Node& node) const {
    return node.registered && node.registered->instance == config_.instance;
  }
  RegistryCondition OwnUnchanged() { return {Key("node", *node_), Own().modified}; }
  // Logs `text` if it differs from the state that was logged last.
  void SetState(const std::string& text, bool is_warning = false);

  const RegistrationConfig config_;
  RegistryStore& store_;
  const int64_t poll_ns_, renew_ns_, grace_ns_;
  int64_t lease_ = 0;  // 0: none
  int64_t next_renewal_ = 0, next_read_ = 0;
  bool seen_ = false;  // view_ is valid
  RegistryView view_;
  std::optional<NodeId> node_;
  bool is_registered_ = false;
  bool joined_ = false, may_bootstrap_ = false, run_ended_ = false;
  bool leaving_ = false, left_ = false;
  bool completed_ = false;  // is to be written to the registry
  int64_t former_run_ = 0;  // `run` of a run that had ended when this process started
  bool is_away_ = false;    // the last call had no answer
  std::set<NodeId> heard_;  // since the last read
  struct Absence {
    int reads = 0;       // in which a node that was registered is not
    int silent = 0;      // reads since it was heard
    bool heard = false;  // after it was found absent
  };
  std::map<NodeId, Absence> absent_;
  std::map<NodeId, int64_t> free_since_;   // used ids
  std::optional<int64_t> orphaned_since_;  // the run has no joined node
  std::vector<std::string> addresses_;
  std::string conflict_, state_;
  std::vector<Line> lines_;
};

}  // namespace millrace::inline rendezvous

#endif  // MILLRACE_RENDEZVOUS_REGISTRATION_H_
