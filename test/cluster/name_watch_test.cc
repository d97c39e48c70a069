// Host names of nodes that get other addresses.
#include "cluster/name_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace millrace::test {
namespace {

std::vector<std::string> AddressesOf(const std::vector<NamedPeer>& peers) {
  std::vector<std::string> addresses;
  for (const NamedPeer& peer : peers) addresses.push_back(peer.address);
  return addresses;
}

TEST(NameWatch, FindsSilentPeersThatHaveMoved) {
  std::map<std::string, std::string> names = {{"b:7", "10.0.0.2:7"}, {"c:7", "10.0.0.3:7"}};
  std::set<NodeId> silent = {1, 2};
  int lookups = 0;
  NameWatch watch({{0, 1, "b:7"}, {0, 2, "c:7"}},
                  [&](const std::string& name) -> std::optional<std::string> {
                    ++lookups;
                    const auto found = names.find(name);
                    return found == names.end() ? std::nullopt : std::optional(found->second);
                  });
  const auto look = [&] {
    return AddressesOf(watch.Look([&](const NamedPeer& peer) { return silent.count(peer.node); }));
  };
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(look().empty()) << "nothing has changed";
  names["b:7"] = "10.0.0.9:7";
  names.erase("c:7");
  EXPECT_EQ(look(), (std::vector<std::string>{"10.0.0.9:7"}));
  EXPECT_TRUE(look().empty());
  names["c:7"] = "10.0.0.4:7";
  EXPECT_EQ(look(), (std::vector<std::string>{"10.0.0.4:7"}));
  // A peer that is heard keeps its address, and its name is not looked up.
  silent.clear();
  names["b:7"] = "10.0.0.8:7";
  lookups = 0;
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(lookups, 0);
}

TEST(NameWatch, WatchesNamesOnTransportsThatMovePeers) {
  const Topology topology = ParseTopology(
      "name: 'n' node { name: 'a' address: '10.0.0.1' interface: 'lo' mac: '02:00:00:00:00:01' }\n"
      "node { name: 'b' address: 'host-b' interface: 'lo' mac: '02:00:00:00:00:02' }\n"
      "node { name: 'c' address: '10.0.0.3' interface: 'lo' mac: '02:00:00:00:00:03' }\n"
      "segment { name: 's' transport: 'udp' port: 77 range_end: 0.5 }\n"
      "segment { name: 'p' transport: 'packet' range_begin: 0.5 }",
      "f", {"packet", "udp"});
  NodePlan plan;
  plan.segments.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    plan.segments[i].segment = i;
    plan.segments[i].peers = {1, 2};
  }
  const std::vector<NamedPeer> named = NamedPeers(topology, plan);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].segment, 0u);
  EXPECT_EQ(named[0].node, 1);
  EXPECT_EQ(named[0].name, "host-b:77");
}

}  // namespace
}  // namespace millrace::test
