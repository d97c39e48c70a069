// Nodes that register in a registry, on simulated time.
#include "rendezvous/registration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/rng.h"
#include "test/support/memory_registry.h"

namespace millrace::test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTick = kSecond / 20;

// One process.
struct Node {
  Node(MemoryRegistry* registry, const std::string& instance, RegistrationConfig config,
       std::function<Fate()> how = nullptr)
      : store(registry,
              [this, how] { return is_cut ? Fate::kLost
                                   : how  ? how()
                                          : Fate::kAnswered; }),
        registration(
            [&] {
              config.prefix = "run/";
              config.instance = instance;
              if (config.address.empty()) config.address = "host-" + instance;
              return config;
            }(),
            &store) {}

  void Step(int64_t now) {
    if (now < next) return;
    next = registration.Step(now);
    for (const Registration::Line& line : registration.TakeLines()) log += line.text + "\n";
  }

  bool is_cut = false;     // from the registry
  bool trains = false;     // has the run's weights
  bool is_silent = false;  // its peers do not hear it
  int64_t next = 0;
  std::string log;
  MemoryStore store;
  Registration registration;
};

class Registrations : public testing::Test {
 protected:
  Node& Start(const std::string& instance) {
    nodes_.push_back(std::make_unique<Node>(&registry_, instance, config_));
    return *nodes_.back();
  }
  // As with -9: its lease ends by itself.
  void Kill(const Node& node) {
    std::erase_if(nodes_, [&](const auto& each) { return each.get() == &node; });
  }
  // A node that trains hears the others that do.
  void Run(double seconds) {
    const int64_t end = now_ + static_cast<int64_t>(seconds * kSecond);
    for (; now_ < end; now_ += kTick) {
      registry_.Advance(now_);
      for (const auto& node : nodes_) {
        std::vector<NodeId> heard;
        for (const auto& other : nodes_) {
          if (other != node && other->trains) heard.push_back(*other->registration.node());
        }
        if (node->trains) node->registration.AddHeard(heard);
        node->Step(now_);
        Follow(node.get());
      }
    }
  }
  // A node trains once it has bootstrapped, or another one trains.
  void Follow(Node* node) {
    if (node->is_silent) node->trains = false;
    if (node->trains || node->is_silent || !node->registration.node()) return;
    const bool run_exists =
        std::ranges::any_of(nodes_, [](const auto& each) { return each->trains; });
    node->trains = run_exists || node->registration.may_bootstrap();
    if (node->trains) node->registration.SetJoined();
  }
  // As Run, but nobody begins to train.
  void StepAll(int times = 1) {
    for (int i = 0; i < times; ++i) {
      registry_.Advance(now_ += kTick);
      for (const auto& node : nodes_) node->Step(now_);
    }
  }
  // Two nodes as one of them may begin the run of both: that one first.
  std::pair<Node*, Node*> StartTwoUntilOneMayBegin() {
    config_.min_nodes = 2;
    Node &a = Start("a"), &b = Start("b");
    while (Bootstraps() == 0) StepAll();
    return a.registration.may_bootstrap() ? std::pair(&a, &b) : std::pair(&b, &a);
  }
  // A node ends its training, and leaves with the next steps.
  static void Leave(Node* node, bool completed) {
    node->registration.BeginLeave(completed);
    node->is_silent = true;
  }
  int Bootstraps() const {
    return static_cast<int>(std::ranges::count_if(
        nodes_, [](const auto& node) { return node->registration.may_bootstrap(); }));
  }

  MemoryRegistry registry_;
  RegistrationConfig config_{.min_nodes = 1, .max_nodes = 4, .lease_seconds = 10};
  std::vector<std::unique_ptr<Node>> nodes_;
  int64_t now_ = 0;
};

TEST_F(Registrations, GiveEachNodeAnIdAndOneTheStartOfTheRun) {
  for (const char* name : {"a", "b", "c"}) Start(name);
  Run(5);
  std::set<NodeId> ids;
  for (const auto& node : nodes_) ids.insert(node->registration.node().value());
  EXPECT_EQ(ids, (std::set<NodeId>{0, 1, 2}));
  EXPECT_EQ(Bootstraps(), 1);
  EXPECT_EQ(nodes_[0]->registration.addresses(),
            (std::vector<std::string>{"", "host-b", "host-c", ""}));
}

TEST_F(Registrations, WaitForTheSmallestNumberOfNodesBeforeTheRunBegins) {
  config_.min_nodes = 3;
  Start("a"), Start("b");
  Run(30);
  EXPECT_EQ(Bootstraps(), 0);
  EXPECT_NE(nodes_[0]->log.find("2 of 3 are registered"), std::string::npos) << nodes_[0]->log;
  Start("c");
  Run(5);
  EXPECT_EQ(Bootstraps(), 1);
}

TEST_F(Registrations, LetALateNodeJoinARunWithFewerThanTheSmallestNumberOfNodes) {
  config_.min_nodes = 2;
  Start("a"), Start("b");
  Run(5);
  Kill(*nodes_[1]);
  Run(15);
  const Node& late = Start("c");
  Run(5);
  EXPECT_TRUE(late.trains);
  EXPECT_FALSE(late.registration.may_bootstrap());
}

TEST_F(Registrations, PreferIdsThatWereNeverUsed) {
  Start("a"), Start("b");
  Run(5);
  Kill(*nodes_[1]);
  Run(40);
  const Node& late = Start("c");
  Run(5);
  EXPECT_EQ(late.registration.node(), 2);
}

TEST_F(Registrations, GiveTheIdOfADeadNodeToANewcomerAtAnotherAddress) {
  config_.max_nodes = 2;
  Start("a"), Start("b");
  Run(5);
  const NodeId id = nodes_[1]->registration.node().value();
  Kill(*nodes_[1]);
  const Node& late = Start("c");
  Run(9);
  EXPECT_FALSE(late.registration.node()) << "the lease of b has not ended";
  EXPECT_NE(late.log.find("All 2 node ids of the run are taken"), std::string::npos) << late.log;
  Run(20);
  EXPECT_EQ(late.registration.node(), id);
  EXPECT_EQ(nodes_[0]->registration.addresses()[id], "host-c");
}

TEST_F(Registrations, RemoveTheControlServiceOfAFormerNodeWithItsId) {
  registry_.keys["run/control/0"] = {"10.0.0.9:8400", 1, 0};
  Start("a");
  Run(5);
  EXPECT_EQ(registry_.keys.count("run/node/0"), 1u);
  EXPECT_EQ(registry_.keys.count("run/control/0"), 0u);
}

TEST_F(Registrations, HoldTheIdOfANodeThatLosesOnlyTheRegistry) {
  config_.max_nodes = 2;
  Start("a"), Start("b");
  Run(5);
  Node& cut = *nodes_[1];
  cut.is_cut = true;
  Run(12);
  const Node& late = Start("c");
  Run(60);
  EXPECT_FALSE(late.registration.node());
  EXPECT_NE(cut.log.find("; the run goes on without it"), std::string::npos) << cut.log;
  cut.is_cut = false;
  Run(10);
  EXPECT_EQ(cut.registration.conflict(), "");
  EXPECT_NE(cut.log.find("answers again"), std::string::npos) << cut.log;
  // Its registration is back, so nobody holds the id any more.
  const RegistryView view = ParseRegistry("run/", 2, nodes_[0]->store.Read("run/"));
  EXPECT_EQ(view.registered(), 2);
  EXPECT_TRUE(view.nodes[0].holders.empty() && view.nodes[1].holders.empty());
}

TEST_F(Registrations, EndANodeWhoseIdAnotherProcessHas) {
  config_.max_nodes = 2;
  Start("a"), Start("b");
  Run(5);
  Node& cut = *nodes_[1];
  cut.is_cut = true;
  cut.is_silent = true;
  Start("c");
  Run(30);
  cut.is_cut = false;
  Run(5);
  EXPECT_NE(cut.registration.conflict().find("is registered by another process at host-c"),
            std::string::npos)
      << cut.registration.conflict();
}

TEST_F(Registrations, KeepTheRunWhileTheRegistryIsAway) {
  Start("a"), Start("b");
  Run(5);
  for (const auto& node : nodes_) node->is_cut = true;
  Run(60);
  EXPECT_TRUE(registry_.leases.empty());
  // A newcomer that reaches the registry does not begin a second run.
  Start("c");
  Run(5);
  EXPECT_EQ(Bootstraps(), 1);
  for (const auto& node : nodes_) node->is_cut = false;
  Run(5);
  EXPECT_EQ(Bootstraps(), 1);
  const RegistryView view = ParseRegistry("run/", 4, nodes_[0]->store.Read("run/"));
  EXPECT_EQ(view.registered(), 3);
}

TEST_F(Registrations, WaitForANodeOfARunThatNobodyIsLeftIn) {
  Start("a");
  Run(5);
  Kill(*nodes_[0]);
  Run(15);
  Node& late = Start("b");
  Run(60);
  EXPECT_FALSE(late.registration.may_bootstrap());
  EXPECT_NE(late.log.find("delete the key run/run to begin another run"), std::string::npos)
      << late.log;
  registry_.keys.erase("run/run");
  Run(5);
  EXPECT_TRUE(late.registration.may_bootstrap());
}

TEST_F(Registrations, BeginAnotherRunAfterAPauseIfTheUserSaysSo) {
  config_.restart_ns = 20 * kSecond;
  Start("a");
  Run(5);
  Kill(*nodes_[0]);
  Run(15);
  Start("b"), Start("c");
  Run(15);
  EXPECT_EQ(Bootstraps(), 0);
  Run(15);
  EXPECT_EQ(Bootstraps(), 1);
}

TEST_F(Registrations, EndTheRunWithItsLastNode) {
  Start("a"), Start("b");
  Run(5);
  Leave(nodes_[0].get(), false);
  Run(2);
  EXPECT_TRUE(nodes_[0]->registration.left());
  EXPECT_EQ(registry_.keys.count("run/run"), 1u);
  Leave(nodes_[1].get(), false);
  Run(2);
  EXPECT_TRUE(registry_.keys.empty());
  const Node& next = Start("c");
  Run(5);
  EXPECT_TRUE(next.registration.may_bootstrap());
}

TEST_F(Registrations, EndTheNodesThatWaitForARunThatHasEnded) {
  Start("a");
  Run(5);
  Node& b = Start("b");
  Node& c = Start("c");
  b.is_silent = c.is_silent = true;  // never have the run's weights
  Run(5);
  Leave(nodes_[0].get(), true);
  Run(2);
  EXPECT_TRUE(nodes_[0]->registration.left());
  for (Node* node : {&b, &c}) {
    EXPECT_TRUE(node->registration.run_ended());
    EXPECT_FALSE(node->registration.may_bootstrap());
    EXPECT_EQ(node->log.find("waits for one"), std::string::npos) << node->log;
    node->registration.BeginLeave(false);
    Run(2);
  }
  EXPECT_TRUE(registry_.keys.empty());
}

// It reads the registry only once while the run exists.
TEST_F(Registrations, EndANodeThatWaitsForAShortRun) {
  const auto [first, other] = StartTwoUntilOneMayBegin();
  first->registration.SetJoined();
  first->registration.BeginLeave(true);
  StepAll(100);
  EXPECT_TRUE(other->registration.run_ended());
}

TEST_F(Registrations, JoinARunThatNotAllNodesHaveEnded) {
  Start("a"), Start("b");
  Run(5);
  Leave(nodes_[0].get(), true);
  Run(2);
  const Node& late = Start("c");
  Run(5);
  EXPECT_TRUE(late.trains);
  EXPECT_FALSE(late.registration.run_ended());
}

// A node that waited for the run was killed, so that the key has stayed.
TEST_F(Registrations, BeginAnotherRunAfterOneThatHasEnded) {
  Start("a");
  Run(5);
  Start("b").is_silent = true;
  Run(2);
  Leave(nodes_[0].get(), true);
  Run(0.5);
  Kill(*nodes_[1]);
  Run(15);
  ASSERT_EQ(registry_.keys.count("run/run"), 1u);
  config_.min_nodes = 2;
  const Node& c = Start("c");
  Run(5);
  EXPECT_FALSE(c.registration.may_bootstrap());
  EXPECT_NE(c.log.find("1 of 2 are registered"), std::string::npos) << c.log;
  const Node& d = Start("d");
  Run(5);
  EXPECT_EQ(Bootstraps(), 2);  // a and one of these
  EXPECT_TRUE(c.trains && d.trains);
  EXPECT_FALSE(c.registration.run_ended() || d.registration.run_ended());
}

TEST_F(Registrations, KeepTheRunOfANodeThatOnlyTheLastOneHears) {
  Start("a"), Start("b");
  Run(5);
  nodes_[1]->is_cut = true;
  Run(20);
  nodes_[0]->registration.BeginLeave(false);
  Run(1);
  EXPECT_TRUE(nodes_[0]->registration.left());
  EXPECT_EQ(registry_.keys.count("run/run"), 1u);
}

// It stops between the claim and the first iteration.
TEST_F(Registrations, ForgetTheRunOfANodeThatFailsBeforeItBegins) {
  const auto [first, other] = StartTwoUntilOneMayBegin();
  first->registration.BeginLeave(false);
  StepAll(100);
  EXPECT_EQ(registry_.keys.count("run/run"), 0u);
  EXPECT_NE(other->log.find("1 of 2 are registered"), std::string::npos) << other->log;
}

TEST(RegistryViews, IgnoreWhatIsMalformed) {
  const RegistryView view = ParseRegistry("run/", 2,
                                          {{"run/node/0", "a 10.0.0.1", 5},
                                           {"run/node/1", "no-address", 6},
                                           {"run/node/2", "c 10.0.0.3", 7},
                                           {"run/node/-1", "c 10.0.0.3", 7},
                                           {"run/control/0", "10.0.0.1:8400", 8},
                                           {"run/control/1", "no-port", 8},
                                           {"run/control/2", "10.0.0.3:8400", 8},
                                           {"run/held/1/0", "a", 8},
                                           {"run/held/1/9", "a", 8},
                                           {"run/held/", "a", 8},
                                           {"other/run", "x", 9}});
  EXPECT_EQ(view.registered(), 1);
  EXPECT_EQ(view.nodes[0].registered, (RegisteredNode{"a", "10.0.0.1"}));
  EXPECT_EQ(view.nodes[0].control, "10.0.0.1:8400");
  EXPECT_EQ(view.nodes[1].control, "");
  EXPECT_FALSE(view.nodes[1].is_free());
  EXPECT_EQ(view.nodes[1].holders, (std::set<NodeId>{0}));
  EXPECT_EQ(view.run_modified, 0);
  const RegistryView ended = ParseRegistry("run/", 2, {{"run/run", "a ended", 9}});
  EXPECT_EQ(ended.run, "a");
  EXPECT_TRUE(ended.run_ended);
}

// Nodes start, leave, die, and lose requests and answers at random; at any time one node at most
// cannot reach the registry for long. Two runs never begin, and no two processes that train have
// one id.
void CheckRandom(uint64_t seed) {
  Rng rng(seed, {1});
  const auto chance = [&](double share) { return rng.Uniform() < share; };
  MemoryRegistry registry;
  std::vector<std::unique_ptr<Node>> nodes;
  const auto fate = [&] {
    return chance(0.05) ? Fate::kLost : chance(0.05) ? Fate::kAnswerLost : Fate::kAnswered;
  };
  int started = 0, bootstraps = 0;
  std::set<const Node*> counted;
  Node* cut = nullptr;
  for (int64_t now = 0; now < 300 * kSecond; now += kTick) {
    registry.Advance(now);
    if (nodes.size() < 5 && chance(0.01)) {
      nodes.push_back(std::make_unique<Node>(
          &registry, StrCat("i", ++started),
          RegistrationConfig{.min_nodes = 2, .max_nodes = 4, .lease_seconds = 10}, fate));
    }
    std::vector<const Node*> training;
    for (const auto& node : nodes) {
      if (node->trains) training.push_back(node.get());
    }
    for (const auto& node : nodes) {
      if (chance(0.3)) continue;  // a slow process
      std::vector<NodeId> heard;
      for (const Node* other : training) {
        if (other != node.get()) heard.push_back(*other->registration.node());
      }
      if (node->trains) node->registration.AddHeard(heard);
      node->Step(now);
      if (node->registration.may_bootstrap() && counted.insert(node.get()).second) ++bootstraps;
      if (!node->trains && node->registration.node() && !node->is_silent &&
          (!training.empty() || (node->registration.may_bootstrap() && chance(0.1)))) {
        node->trains = true;
        node->registration.SetJoined();
      }
    }
    ASSERT_LE(bootstraps, 1) << "at " << now << " ns";
    std::set<NodeId> ids;
    for (const auto& node : nodes) {
      ASSERT_EQ(node->registration.conflict(), "");
      if (!node->trains) continue;
      ASSERT_TRUE(ids.insert(*node->registration.node()).second)
          << "two processes have id " << *node->registration.node() << " at " << now << " ns";
    }
    std::set<int64_t> leases;
    for (const auto& [key, value] : registry.keys) {
      if (!key.starts_with("run/node/") || value.lease == 0) continue;
      leases.insert(value.lease);
    }
    ASSERT_LE(leases.size(), 4u);
    // One node leaves the run, by force or not; never the last one that trains.
    if (training.size() > 2 && chance(0.01)) {
      const auto which = static_cast<size_t>(rng.Uniform() * static_cast<double>(nodes.size()));
      Node* const node = nodes[which].get();
      if (cut == node) cut = nullptr;
      if (chance(0.5)) {
        counted.erase(node);
        nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(which));
      } else {
        node->trains = false;
        node->is_silent = true;
        node->registration.BeginLeave(false);
      }
    }
    std::erase_if(nodes, [&](const auto& node) {
      if (!node->registration.left()) return false;
      if (cut == node.get()) cut = nullptr;
      counted.erase(node.get());
      return true;
    });
    if (chance(0.005)) {
      if (cut != nullptr) {
        cut->is_cut = false;
        cut = nullptr;
      } else if (training.size() > 2) {
        cut = const_cast<Node*>(training[0]);
        if (std::ranges::none_of(nodes, [&](const auto& node) { return node.get() == cut; })) {
          cut = nullptr;
        } else {
          cut->is_cut = true;
        }
      }
    }
  }
  EXPECT_GT(started, 4);
  EXPECT_EQ(bootstraps, 1);
}

TEST(RandomRegistrations, NeverBeginTwoRunsAndGiveNoIdTwice) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CheckRandom(seed);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}

}  // namespace
}  // namespace millrace::test
