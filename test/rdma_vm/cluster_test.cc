// Clusters over RDMA: small problems with all send modes, and nodes and links that fail and return.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/rdma_vm/cluster_of_devices.h"

namespace millrace::test {
namespace {

using ClusterOverVerbs = ClusterOfDevices;

constexpr int64_t kIterations = 400;  // enough to learn the small problem

// The cluster's IPv4 multicast groups that a node's interface has joined.
std::set<std::string> GroupsOf(int node) {
  std::set<std::string> groups;
  std::istringstream words(RunOrFail({"ip", "maddress", "show", "dev", NodeDevice(node)}));
  for (std::string word; words >> word;) {
    if (word.starts_with("239.")) groups.insert(word);
  }
  return groups;
}

// The loss in a node's first line of training; -1 if there is none.
double FirstLoss(const std::string& log) {
  const size_t at = log.find("loss = ");
  return at == std::string::npos ? -1 : std::stod(log.substr(at + 7));
}

TEST_F(ClusterOverVerbs, TrainsToAccuracyByMulticast) {
  WriteTopology(Segment(Multicast("on")));
  StartAll(Endless());
  TrainTogether(kIterations);
  ExpectAccuracy(0.9);
}

TEST_F(ClusterOverVerbs, TrainsToAccuracyByCopies) {
  WriteTopology(Segment(Multicast("off")));
  StartAll(Endless());
  TrainTogether(kIterations);
  ExpectAccuracy(0.9);
}

TEST_F(ClusterOverVerbs, TrainsToAccuracyWithLossReorderingAndDuplication) {
  const Disturbance disturbance(
      {0, 1, 2}, {"loss", "10%", "delay", "1ms", "reorder", "25%", "duplicate", "5%"});
  WriteTopology(Segment());
  StartAll(Endless());
  TrainTogether(kIterations);
  ExpectAccuracy(0.9);
}

TEST_F(ClusterOverVerbs, SendsCopiesWhereGroupsAreRefusedAndSaysSo) {
  WriteTopology(Segment());
  Start(0, Endless(), "topology.prototxt", "", RefusedGroups());
  for (int i : {1, 2}) Start(i, Endless());
  const std::vector<CommandResult> results = TrainTogether(kIterations);
  ExpectAccuracy(0.9);
  EXPECT_CONTAINS(results[0].errors, "transport verbs: rxe1 port 1: multicast group 239.");
  EXPECT_CONTAINS(results[0].errors,
                  " is refused: Operation not permitted; a copy is sent to each peer instead");
  EXPECT_CONTAINS(results[0].errors,
                  "not in the multicast groups of nodes 1, 2: Operation not permitted; they send "
                  "copies instead");
  for (int i : {1, 2}) EXPECT_EQ(results[i].errors.find("copies"), std::string::npos);
}

TEST_F(ClusterOverVerbs, GoesOnWithoutANodeThatIsKilledAndTakesItBack) {
  WriteTopology(Segment("peer_timeout_ms: 5000"));
  StartAll(Endless());
  for (int i = 0; i < size_; ++i) AwaitIteration(i, 100);
  Kill(1);
  const int64_t then = Iteration(0);
  AwaitIteration(0, then + 200);
  AwaitIteration(2, then + 200);
  Start(1, Endless());
  Await(1, "Joined the run at iteration ");
  AwaitIteration(1, Iteration(0) + 100);
  StopAll();
  ExpectAccuracy(0.9);
}

TEST_F(ClusterOverVerbs, ANodeThatStartsLateGetsTheWeights) {
  WriteTopology(Segment());
  for (int i : {0, 1}) Start(i, Endless());
  for (int i : {0, 1}) AwaitIteration(i, 400);
  Start(2, Endless());
  Await(2, "Joined the run at iteration ");
  Await(2, "loss = ");
  // Untrained weights would be no better than chance, a loss of ln 4.
  EXPECT_LT(FirstLoss(nodes_[2]->ErrorsSoFar()), 0.7);
  AwaitIteration(2, Iteration(0) + 100);
  StopAll();
  ExpectAccuracy(0.9);
}

TEST_F(ClusterOverVerbs, ALinkThatGoesDownAndUpLeavesAllInStep) {
  WriteTopology(Segment("peer_timeout_ms: 5000"));
  StartAll(Endless());
  for (int i = 0; i < size_; ++i) AwaitIteration(i, 100);
  SetLink(2, false);
  Await(2, "transport verbs: rxe3 port 1: port error");
  for (int i : {0, 1}) AwaitIteration(i, Iteration(i) + 200);
  AwaitIteration(2, Iteration(2) + 50);  // a partitioned node continues as well
  SetLink(2, true);
  AwaitIteration(2, Iteration(0) + 200);
  AwaitIteration(0, Iteration(2) + 100);
  StopAll();
  ExpectAccuracy(0.9);  // one run, one model
}

TEST_F(ClusterOverVerbs, TwoInOneFabricDoNotDisturbEachOther) {
  size_ = 4;
  devices_ = 2;  // two nodes at each device, one of either cluster
  for (const auto& [key, digit] : {std::pair("one.key", '7'), std::pair("two.key", '8')}) {
    WriteFile(work_ / key, std::string(64, digit));
    ASSERT_EQ(chmod((work_ / key).c_str(), 0600), 0);
  }
  const std::string one = Multicast("on") + "key_file: \"one.key\" ";
  const std::string two = Multicast("on") + "key_file: \"two.key\" port: 29449 ";
  WriteTopology(Segment(one), "one", "one.prototxt", {0, 1});
  WriteTopology(Segment(two), "two", "two.prototxt", {2, 3});
  for (int i = 0; i < size_; ++i) Start(i, Endless(), i < 2 ? "one.prototxt" : "two.prototxt");
  for (int i : {0, 1, 2, 3}) AwaitIteration(i, kIterations);
  StopAll();
  const std::vector<std::string> models = Models();
  EXPECT_EQ(models.size(), 2u);
  for (const std::string& model : models) EXPECT_GE(AccuracyOf(model, 2), 0.9);
  for (const char* reason : {"malformed", "unknown_sender", "run", "self", "bad_tag"}) {
    EXPECT_EQ(Dropped(reason), 0u) << reason;
  }
}

TEST_F(ClusterOverVerbs, SegmentsSideBySideHaveGroupsOfTheirOwn) {
  size_ = 2;
  WriteTopology(Segment(Multicast("on") + "range_end: 0.5 ", "lower") +
                Segment(Multicast("on") + "range_begin: 0.5 port: 29449 ", "upper"));
  StartAll(Endless());
  for (int i = 0; i < size_; ++i) AwaitIteration(i, 200);
  // Per segment the group of the other node; a node only sends to its own group.
  EXPECT_EQ(GroupsOf(0).size(), 2u);
  EXPECT_EQ(GroupsOf(1).size(), 2u);
  StopAll();
  ExpectAccuracy(0.9);
}

}  // namespace
}  // namespace millrace::test
