#include "rendezvous/registration.h"

#include <algorithm>
#include <utility>

#include "base/text/parse.h"
#include "transport/network_names.h"

namespace millrace::inline rendezvous {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Reads without a sign of a node until its id is no longer held.
constexpr int kSilentReads = 3;
// Behind the instance in the key of a run that a node has completed.
constexpr std::string_view kEnded = " ended";

// The id at the end of `text`, which begins with `kind` and a slash.
std::optional<NodeId> IdAfter(const std::string& text, const std::string& kind, int max_nodes) {
  if (!text.starts_with(kind + "/")) return {};
  const auto id = ParseNumber<NodeId>(text.substr(kind.size() + 1));
  return id && *id < max_nodes ? id : std::nullopt;
}

void ParseHeld(const std::string& text, int max_nodes, RegistryView* view) {
  const size_t slash = text.rfind('/');
  if (slash == std::string::npos) return;
  const auto node = IdAfter(text.substr(0, slash), "held", max_nodes);
  const auto holder = ParseNumber<NodeId>(text.substr(slash + 1));
  if (node && holder && *holder < max_nodes) view->nodes[*node].holders.insert(*holder);
}

}  // namespace

std::optional<RegisteredNode> ParseRegisteredNode(const std::string& value) {
  constexpr size_t kMaxBytes = 512;
  const size_t space = value.find(' ');
  if (space == 0 || space == std::string::npos || value.size() > kMaxBytes) return {};
  RegisteredNode node{value.substr(0, space), value.substr(space + 1)};
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  if (node.address.empty() || !std::ranges::all_of(node.address, is_printable)) return {};
  if (!std::ranges::all_of(node.instance, is_printable)) return {};
  return node;
}

std::string RegisteredNodeText(const RegisteredNode& node) {
  return StrCat(node.instance, " ", node.address);
}

int RegistryView::registered() const {
  return static_cast<int>(
      std::ranges::count_if(nodes, [](const Node& node) { return node.registered.has_value(); }));
}

bool RegistryView::anyone_joined() const {
  return std::ranges::any_of(nodes, [](const Node& node) { return node.has_joined; });
}

RegistryView ParseRegistry(const std::string& prefix, int max_nodes,
                           const std::vector<RegistryEntry>& entries) {
  RegistryView view;
  view.nodes.resize(max_nodes);
  for (const RegistryEntry& entry : entries) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string key = entry.key.substr(prefix.size());
    if (key == "run") {
      view.run_ended = entry.value.ends_with(kEnded);
      view.run = entry.value.substr(0, entry.value.find(' '));
      view.run_modified = entry.modified;
    } else if (const auto node = IdAfter(key, "node", max_nodes)) {
      view.nodes[*node].registered = ParseRegisteredNode(entry.value);
      view.nodes[*node].modified = entry.modified;
    } else if (const auto control = IdAfter(key, "control", max_nodes)) {
      const auto endpoint = ParseHostAndPort(entry.value);
      if (endpoint) view.nodes[*control].control = HostAndPort(endpoint->host, endpoint->port);
    } else if (const auto joined = IdAfter(key, "joined", max_nodes)) {
      view.nodes[*joined].has_joined = true;
    } else if (const auto used = IdAfter(key, "used", max_nodes)) {
      view.nodes[*used].last = ParseRegisteredNode(entry.value);
    } else {
      ParseHeld(key, max_nodes, &view);
    }
  }
  return view;
}

Registration::Registration(const RegistrationConfig& config, RegistryStore* store)
    : config_(config),
      store_(*store),
      poll_ns_(config.lease_seconds * kSecond / 10),
      renew_ns_(config.lease_seconds * kSecond / 3),
      grace_ns_(config.lease_seconds * kSecond),
      addresses_(config.max_nodes) {}

std::string Registration::Key(const char* kind, NodeId node) const {
  return StrCat(config_.prefix, kind, "/", node);
}

void Registration::SetState(const std::string& text, bool is_warning) {
  if (text == state_) return;
  state_ = text;
  if (!text.empty()) lines_.push_back({is_warning, text});
}

std::vector<Registration::Line> Registration::TakeLines() { return std::exchange(lines_, {}); }

int64_t Registration::Step(int64_t now_ns) {
  if (left_ || !conflict_.empty()) return INT64_MAX;
  try {
    const int64_t next = Call(now_ns);
    if (std::exchange(is_away_, false)) {
      lines_.push_back({false, "The registry of the run answers again"});
    }
    return next;
  } catch (const Error& error) {
    if (leaving_) left_ = true;
    if (!std::exchange(is_away_, true)) {
      lines_.push_back({true, StrCat(error.what(), node_ ? "; the run goes on without it"
                                                         : "; waits for it, Ctrl-C stops")});
    }
    // What the registry has done is not known.
    next_read_ = now_ns;
    return now_ns + poll_ns_;
  }
}

// The time of the next call is `now_ns` as long as something is due.
int64_t Registration::Call(int64_t now_ns) {
  if (leaving_) {
    Leave(now_ns);
    return now_ns;
  }
  if (lease_ == 0) {
    Grant(now_ns);
    return now_ns;
  }
  if (now_ns >= next_renewal_) {
    KeepAlive(now_ns);
    return now_ns;
  }
  if (!seen_ || now_ns >= next_read_) {
    Read(now_ns);
    return now_ns;
  }
  if (const std::optional<Action> action = NextAction(now_ns)) {
    next_read_ = now_ns;
    const bool is_done = store_.Commit(action->conditions, action->changes, lease_);
    if (is_done && action->done) action->done();
    // Others are ahead of this node: do not ask again and again.
    if (!is_done) return now_ns + poll_ns_ / 10;
    return now_ns;
  }
  return std::min(next_renewal_, next_read_);
}

void Registration::Grant(int64_t now_ns) {
  lease_ = store_.Grant(config_.lease_seconds);
  next_renewal_ = now_ns + renew_ns_;
  is_registered_ = false;
}

void Registration::KeepAlive(int64_t now_ns) {
  if (store_.KeepAlive(lease_)) {
    next_renewal_ = now_ns + renew_ns_;
    return;
  }
  lease_ = 0;
  is_registered_ = false;
  next_read_ = now_ns;
  lines_.push_back({true, "This node's lease in the registry has ended; registers again"});
}

void Registration::Read(int64_t now_ns) {
  view_ = ParseRegistry(config_.prefix, config_.max_nodes, store_.Read(config_.prefix));
  if (!std::exchange(seen_, true) && view_.run_ended) former_run_ = view_.run_modified;
  next_read_ = std::max<int64_t>(1, now_ns + poll_ns_);
  Follow(now_ns);
}

void Registration::Follow(int64_t now_ns) {
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    const RegistryView::Node& node = view_.nodes[id];
    if (node.last && node.is_free()) {
      free_since_.emplace(id, now_ns);
    } else {
      free_since_.erase(id);
    }
    // A registration whose answer was lost.
    if (!node_ && IsMine(node)) node_ = id;
  }
  if (node_ && !IsMine(Own())) is_registered_ = false;
  FollowAddresses();
  FollowAbsent();
  const bool is_orphaned = view_.run_modified != 0 && !view_.anyone_joined();
  if (!is_orphaned) {
    orphaned_since_.reset();
  } else if (!orphaned_since_) {
    orphaned_since_ = now_ns;
  }
  if (view_.run_modified != 0 && view_.run == config_.instance) may_bootstrap_ = true;
}

void Registration::FollowAddresses() {
  std::set<std::string> registered = {config_.address};
  for (const RegistryView::Node& node : view_.nodes) {
    if (node.registered) registered.insert(node.registered->address);
  }
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    const RegistryView::Node& node = view_.nodes[id];
    if (id == node_ || IsMine(node)) continue;
    if (node.registered) {
      addresses_[id] = node.registered->address;
    } else if (addresses_[id].empty() && node.last && registered.count(node.last->address) == 0) {
      // It may train without the registry.
      addresses_[id] = node.last->address;
    }
  }
}

// Nodes that were registered and are not any more, although this node hears them.
void Registration::FollowAbsent() {
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    if (view_.nodes[id].modified != 0 || id == node_ || addresses_[id].empty()) {
      absent_.erase(id);
      continue;
    }
    Absence& absence = absent_[id];
    // What was heard before the first read without the node says nothing.
    const bool is_heard = heard_.count(id) > 0 && absence.reads > 0;
    ++absence.reads;
    absence.silent = is_heard ? 0 : absence.silent + 1;
    absence.heard = (absence.heard || is_heard) && absence.silent < kSilentReads;
  }
  heard_.clear();
}

std::optional<Registration::Action> Registration::NextAction(int64_t now_ns) {
  if (!is_registered_) return Register(now_ns);
  if (auto action = RemoveDuplicate()) return action;
  if (auto action = PublishJoined()) return action;
  if (auto action = Hold()) return action;
  if (joined_) {
    SetState("");
    return {};
  }
  return Claim(now_ns);
}

std::optional<Registration::Action> Registration::Register(int64_t now_ns) {
  const std::optional<NodeId> id = node_ ? node_ : ChooseId(now_ns);
  if (!id) return {};
  const RegistryView::Node& place = view_.nodes[*id];
  if (node_ && place.modified != 0 && !IsMine(place)) {
    conflict_ = StrCat(
        "node n", *id, " is registered by another process",
        place.registered ? StrCat(" at ", place.registered->address) : "",
        ": the lease of this one ended while it could not reach the registry, and no other node ",
        "heard it; start it again, and it joins the run as another node");
    return {};
  }
  Action action;
  action.conditions = {{Key("node", *id), place.modified}};
  // Whoever hears a node with this id holds it: no newcomer may have it.
  if (!node_) action.conditions.push_back({Key("held", *id) + "/", 0, true});
  action.changes = {
      {Key("node", *id), RegisteredNodeText({config_.instance, config_.address})},
      {Key("used", *id), RegisteredNodeText({config_.instance, config_.address}), false},
  };
  if (config_.control.empty()) {
    action.changes.push_back({Key("control", *id), {}, false});  // a former node's
  } else {
    action.changes.push_back({Key("control", *id), config_.control});
  }
  action.done = [this, id] {
    node_ = id;
    is_registered_ = true;
    addresses_[*id].clear();
    lines_.push_back({false, StrCat("Registered as node n", *id, " at ", config_.address)});
  };
  return action;
}

std::optional<NodeId> Registration::ChooseId(int64_t now_ns) {
  std::optional<NodeId> used;
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    const RegistryView::Node& node = view_.nodes[id];
    if (!node.is_free()) continue;
    if (!node.last) return id;
    const auto since = free_since_.find(id);
    const bool is_ready = since != free_since_.end() && now_ns - since->second >= grace_ns_;
    if (is_ready && !used) used = id;
  }
  if (!used) {
    SetState(StrCat("All ", config_.max_nodes, " node ids of the run are taken, or were a moment ",
                    "ago; waits for one that stays free, Ctrl-C stops"));
  }
  return used;
}

// A registration may be carried out so late that this node has another id already.
std::optional<Registration::Action> Registration::RemoveDuplicate() {
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    const RegistryView::Node& node = view_.nodes[id];
    if (id == node_ || !IsMine(node)) continue;
    return Action{{{Key("node", id), node.modified}},
                  {{Key("node", id), {}, false}, {Key("control", id), {}, false}},
                  nullptr};
  }
  return {};
}

std::optional<Registration::Action> Registration::PublishJoined() {
  if (!joined_) return {};
  if (!Own().has_joined) {
    return Action{{OwnUnchanged()}, {{Key("joined", *node_), config_.instance}}, nullptr};
  }
  // Other nodes have ended the run while this one was not registered.
  if (view_.run_modified == 0) {
    return Action{{{RunKey(), 0}, OwnUnchanged()}, {{RunKey(), config_.instance, false}}, nullptr};
  }
  return {};
}

std::optional<Registration::Action> Registration::Hold() {
  for (NodeId id = 0; id < config_.max_nodes; ++id) {
    const auto found = absent_.find(id);
    const bool holds = view_.nodes[id].holders.count(*node_) > 0;
    const bool should_hold = joined_ && found != absent_.end() && found->second.heard;
    if (holds == should_hold || id == node_) continue;
    const std::string key = StrCat(Key("held", id), "/", *node_);
    if (!should_hold) return Action{{}, {{key, {}, false}}, nullptr};
    return Action{{{Key("node", id), 0}, OwnUnchanged()}, {{key, config_.instance}}, nullptr};
  }
  return {};
}

std::optional<Registration::Action> Registration::Claim(int64_t now_ns) {
  if (may_bootstrap_) {
    SetState("");
    return {};
  }
  Action action{{{RunKey(), view_.run_modified}, OwnUnchanged()},
                {{RunKey(), config_.instance, false}},
                [this] { may_bootstrap_ = true; }};
  if (view_.run_modified != 0) {
    if (!IsReplaceable(now_ns)) return {};
    action.conditions.push_back({config_.prefix + "joined/", 0, true});
    action.conditions.push_back({config_.prefix + "held/", 0, true});
  }
  const int registered = view_.registered();
  if (registered < config_.min_nodes) {
    SetState(StrCat("Waiting for nodes: ", registered, " of ", config_.min_nodes,
                    " are registered; Ctrl-C stops"));
    return {};
  }
  return action;
}

// Whether no node of the run is left. Each finding that one may be left starts the time anew after
// which `restart` begins another run.
bool Registration::IsDeserted(int64_t now_ns) {
  if (!orphaned_since_) return false;
  const bool is_held =
      std::ranges::any_of(view_.nodes, [](const auto& node) { return !node.holders.empty(); });
  // The process that begins the run has not reported yet that it has begun.
  const bool begins = std::ranges::any_of(view_.nodes, [&](const RegistryView::Node& node) {
    return node.registered && node.registered->instance == view_.run;
  });
  if (is_held || begins) orphaned_since_ = now_ns;
  return !is_held && !begins;
}

// A run has begun: whether this node may begin another one. Otherwise it joins this run, waits for
// one of its nodes, or ends with it.
bool Registration::IsReplaceable(int64_t now_ns) {
  if (!IsDeserted(now_ns)) {
    SetState("");
    return false;
  }
  if (view_.run_ended) {
    run_ended_ = view_.run_modified != former_run_;
    return !run_ended_;
  }
  if (config_.restart_ns >= 0 && now_ns - *orphaned_since_ >= config_.restart_ns) return true;
  SetState(StrCat("A run has begun, but none of its nodes is registered: waits for one. ",
                  config_.restart_ns < 0
                      ? StrCat("If all of them have ended, delete the key ", config_.prefix,
                               "run to begin another run")
                      : StrCat("Begins another run after ", config_.restart_ns / kSecond, " s"),
                  "; Ctrl-C stops"),
           true);
  return false;
}

// First that the run is complete, if so. Then the keys of this node, then those of the run if it is
// over: all of its nodes have left, or it has not begun.
void Registration::Leave(int64_t now_ns) {
  if (completed_) {
    if (next_read_ == 0) return Read(now_ns);
    completed_ = false;
    if (view_.run_modified != 0) {
      store_.Commit({{RunKey(), view_.run_modified}},
                    {{RunKey(), StrCat(view_.run, kEnded), false}}, 0);
    }
    return;
  }
  if (lease_ != 0) {
    const int64_t lease = std::exchange(lease_, 0);
    is_registered_ = false;
    store_.Revoke(lease);
    next_read_ = 0;
    return;
  }
  if (next_read_ == 0) return Read(now_ns);
  left_ = true;
  const bool holds =
      std::ranges::any_of(absent_, [](const auto& each) { return each.second.heard; });
  const bool has_part = joined_ || may_bootstrap_ || run_ended_ || view_.run_modified == 0;
  if (!seen_ || holds || !has_part) return;
  std::vector<RegistryCondition> conditions = {{RunKey(), view_.run_modified},
                                               {config_.prefix + "joined/", 0, true}};
  // Registered nodes may have joined, unless this one had to begin the run and has not.
  if (joined_ || !may_bootstrap_) {
    conditions.push_back({config_.prefix + "node/", 0, true});
    conditions.push_back({config_.prefix + "held/", 0, true});
  }
  store_.Commit(conditions, {{RunKey(), {}, false}, {config_.prefix + "used/", {}, false, true}},
                0);
}

}  // namespace millrace::inline rendezvous
