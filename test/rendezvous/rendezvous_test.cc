// The options of a rendezvous, and its thread over a registry in memory.
#include "rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "test/support/eventually.h"
#include "test/support/memory_registry.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const RegisterStore memory("memory", [](const RendezvousConfig&) -> std::unique_ptr<RegistryStore> {
  throw Error("expected a store");
});

RendezvousOptions Options(const std::string& url, const std::string& nodes,
                          const std::string& address = "10.0.0.1") {
  RendezvousOptions options;
  options.url = url;
  options.nodes = nodes;
  options.address = address;
  return options;
}

RendezvousConfig Parse(const std::string& url, const std::string& nodes = "2:4") {
  return ParseRendezvous(Options(url, nodes));
}
std::string ParseError(const std::string& url, const std::string& nodes = "2:4") {
  return ErrorOf([&] { Parse(url, nodes); });
}

TEST(RendezvousOptions, NameRegistryRunAndNodes) {
  const RendezvousConfig config = Parse("memory://h1:2379,[::1]:2380/run-1?lease=5&restart=60");
  EXPECT_EQ(config.scheme, "memory");
  EXPECT_EQ(config.endpoints, (std::vector<std::string>{"h1:2379", "[::1]:2380"}));
  EXPECT_EQ(config.run, "run-1");
  EXPECT_EQ(config.lease_seconds, 5);
  EXPECT_EQ(config.restart_seconds, 60);
  EXPECT_EQ(config.min_nodes, 2);
  EXPECT_EQ(config.max_nodes, 4);
  EXPECT_EQ(ParseRendezvous(Options("memory://h:1/r?address=::1", "8", "")).address, "::1");
  RendezvousOptions controlled = Options("memory://h:1/r?control=10.0.0.2:8400", "8");
  EXPECT_EQ(ParseRendezvous(controlled).control, "10.0.0.2:8400");
  controlled.control = "10.0.0.3:1";
  EXPECT_EQ(ParseRendezvous(controlled).control, "10.0.0.3:1");
  EXPECT_CONTAINS(ErrorOf([] { ParseRendezvous(Options("memory://h:1/r?control=10.0.0.2", "8")); }),
                  "\"control=10.0.0.2\" given, expected control=HOST:PORT");
  EXPECT_EQ(Parse("memory://h:1/r", "8").min_nodes, 1);
  EXPECT_EQ(Parse("memory://h:1/r", "8").max_nodes, 8);
  EXPECT_FALSE(IsOfThisMachine(config));
  EXPECT_TRUE(IsOfThisMachine(Parse("memory://127.0.0.1:1,localhost:2/r", "8")));
}

TEST(RendezvousOptions, AreRefusedInOneLine) {
  EXPECT_CONTAINS(ParseError("h:2379/run"), "expected SCHEME://HOST:PORT/RUN, with SCHEME ");
  EXPECT_CONTAINS(ParseError("zookeeper://h:2379/run"), "expected SCHEME://HOST:PORT/RUN");
  EXPECT_CONTAINS(ParseError("memory://h/run"), "\"h\" given, expected HOST:PORT");
  EXPECT_CONTAINS(ParseError("memory://h:1,/run"), "\"\" given, expected HOST:PORT");
  EXPECT_CONTAINS(ParseError("memory://h:1"), "\"\" given as the name of the run");
  EXPECT_CONTAINS(ParseError("memory://h:1/a/b"), "\"a/b\" given as the name of the run");
  EXPECT_CONTAINS(ParseError("memory://h:1/r?lease=1"), "expected lease=SECONDS, from 2 to 86400");
  EXPECT_CONTAINS(ParseError("memory://h:1/r?x=1"),
                  "expected lease=SECONDS, restart=SECONDS, address=IP or control=HOST:PORT");
  EXPECT_CONTAINS(ParseError("memory://h:1/r?"),
                  "expected lease=SECONDS, restart=SECONDS, address=IP or control=HOST:PORT");
  EXPECT_CONTAINS(ParseError("memory://h:1/r?address=h"), "address=h: expected an IP address");
  for (const char* nodes : {"", "1", "0:4", "5:4", "2:", ":4", "2:4:8", "1:5000", "x"}) {
    EXPECT_CONTAINS(ParseError("memory://h:1/r", nodes), "expected MIN:MAX");
  }
  RendezvousOptions options = Options("memory://h:1/r", "2");
  options.user = "u";
  EXPECT_CONTAINS(ErrorOf([&] { ParseRendezvous(options); }), "expected both or none");
  EXPECT_CONTAINS(ErrorOf([] { ParseRendezvous(Options("memory://h:1/r", "2", "host")); }),
                  "expected an IP address");
}

// A store for several threads.
class SharedStore : public MemoryStore {
 public:
  SharedStore(MemoryRegistry* registry, std::mutex* mutex, const std::atomic<bool>* is_away)
      : MemoryStore(registry, [is_away] { return *is_away ? Fate::kLost : Fate::kAnswered; }),
        mutex_(*mutex) {}
  int64_t Grant(int64_t seconds) override {
    const std::lock_guard lock(mutex_);
    return MemoryStore::Grant(seconds);
  }
  bool KeepAlive(int64_t lease) override {
    const std::lock_guard lock(mutex_);
    return MemoryStore::KeepAlive(lease);
  }
  void Revoke(int64_t lease) override {
    const std::lock_guard lock(mutex_);
    MemoryStore::Revoke(lease);
  }
  std::vector<RegistryEntry> Read(const std::string& prefix) override {
    const std::lock_guard lock(mutex_);
    return MemoryStore::Read(prefix);
  }
  bool Commit(const std::vector<RegistryCondition>& conditions,
              const std::vector<RegistryChange>& changes, int64_t lease) override {
    const std::lock_guard lock(mutex_);
    return MemoryStore::Commit(conditions, changes, lease);
  }

 private:
  std::mutex& mutex_;
};

class RendezvousThreads : public testing::Test {
 protected:
  struct Cluster {
    std::atomic<bool> allowed{false}, begun{false}, ended{false};
    std::mutex mutex;
    std::map<NodeId, std::string> addresses;
    std::string AddressOf(NodeId node) {
      const std::lock_guard lock(mutex);
      return addresses[node];
    }
  };

  std::unique_ptr<Rendezvous> Start(const std::string& address) {
    RendezvousConfig config = ParseRendezvous(Options("memory://h:1/run", "2:3", address));
    config.control = control_;
    return std::make_unique<Rendezvous>(
        config, [](int) { return false; },
        std::make_unique<SharedStore>(&registry_, &mutex_, &is_away_));
  }
  static void Attach(Rendezvous* rendezvous, Cluster* cluster) {
    rendezvous->Attach({.set_address =
                            [cluster](NodeId node, const std::string& address) {
                              const std::lock_guard lock(cluster->mutex);
                              cluster->addresses[node] = address;
                            },
                        .allow_bootstrap = [cluster] { cluster->allowed = true; },
                        .begun = [cluster] { return cluster->begun.load(); },
                        .heard = [] { return std::vector<NodeId>(); },
                        .run_ended = [cluster] { cluster->ended = true; },
                        .fail = [](const std::string& line) { ADD_FAILURE() << line; }});
  }

  MemoryRegistry registry_;
  std::mutex mutex_;
  std::atomic<bool> is_away_{false};
  std::string control_;  // of the next node
};

TEST_F(RendezvousThreads, TellTheClusterAddressesAndWhoBegins) {
  Cluster one, other;
  const std::unique_ptr<Rendezvous> a = Start("10.0.0.1"), b = Start("10.0.0.2");
  EXPECT_EQ(a->node(), 0);
  EXPECT_EQ(b->node(), 1);
  Attach(a.get(), &one);
  Attach(b.get(), &other);
  EXPECT_TRUE(Eventually([&] { return one.AddressOf(1) == "10.0.0.2"; }));
  EXPECT_TRUE(Eventually([&] { return other.AddressOf(0) == "10.0.0.1"; }));
  EXPECT_TRUE(Eventually([&] { return one.allowed || other.allowed; }));
  one.begun = other.begun = true;
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex_);
    return registry_.keys.count("run/joined/0") + registry_.keys.count("run/joined/1") == 2;
  }));
  EXPECT_NE(one.allowed, other.allowed);
  a->Leave();
  b->Leave();
  EXPECT_TRUE(registry_.keys.empty());
}

// A control service is registered with its node, at the address where others reach it, and leaves
// with it.
TEST_F(RendezvousThreads, TellTheClusterThatTheRunHasEnded) {
  Cluster one, other;
  const std::unique_ptr<Rendezvous> a = Start("10.0.0.1"), b = Start("10.0.0.2");
  Attach(a.get(), &one);
  Attach(b.get(), &other);
  EXPECT_TRUE(Eventually([&] { return one.allowed || other.allowed; }));
  const bool is_a = one.allowed;
  (is_a ? one : other).begun = true;
  (is_a ? a : b)->Leave(true);
  EXPECT_TRUE(Eventually([&] { return (is_a ? other : one).ended.load(); }));
  EXPECT_FALSE((is_a ? one : other).ended);
  (is_a ? b : a)->Leave();
  EXPECT_TRUE(registry_.keys.empty());
}

TEST_F(RendezvousThreads, RegisterTheControlServiceThatOthersReach) {
  const auto registered = [this](const std::string& address, const std::string& control) {
    control_ = control;
    const auto rendezvous = Start(address);
    const std::lock_guard lock(mutex_);
    const auto found = registry_.keys.find(StrCat("run/control/", rendezvous->node()));
    return found == registry_.keys.end() ? "" : found->second.text;
  };
  EXPECT_EQ(registered("10.0.0.1", "10.0.0.1:8400"), "10.0.0.1:8400");
  EXPECT_EQ(registered("10.0.0.1", "0.0.0.0:8400"), "10.0.0.1:8400");
  EXPECT_EQ(registered("fd00::1", "[::]:8400"), "[fd00::1]:8400");
  EXPECT_EQ(registered("127.0.0.2", "127.0.0.1:8400"), "127.0.0.1:8400");
  EXPECT_EQ(registered("10.0.0.1", "127.0.0.1:8400"), "");
  EXPECT_EQ(registered("10.0.0.1", ""), "");
  EXPECT_TRUE(registry_.keys.empty());
}

TEST_F(RendezvousThreads, LeaveARegistryThatDoesNotAnswer) {
  const std::unique_ptr<Rendezvous> a = Start("10.0.0.1");
  is_away_ = true;
  a->Leave();
  EXPECT_EQ(registry_.keys.count("run/node/0"), 1u);
}

TEST_F(RendezvousThreads, EndAWaitForAnIdIfTheUserStops) {
  is_away_ = true;
  const RendezvousConfig config = ParseRendezvous(Options("memory://h:1/run", "2:3"));
  int pauses = 0;
  EXPECT_CONTAINS(ErrorOf([&] {
                    Rendezvous(
                        config, [&](int) { return ++pauses == 3; },
                        std::make_unique<SharedStore>(&registry_, &mutex_, &is_away_));
                  }),
                  "stopped before this node had an id in the run run");
}

}  // namespace
}  // namespace millrace::test
