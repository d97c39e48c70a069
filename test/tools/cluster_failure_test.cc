// A cluster node that fails: messages and exit status of the other nodes.
#include <csignal>

#include "test/support/cluster_of_nodes.h"
#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class FailingNode : public ClusterOfNodes {
 protected:
  FailingNode() {
    size_ = 2;
    WriteFile(work_ / "topology.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  }
  // Without display: on this small net, a line every 20 iterations would dominate the run time.
  static caffe::SolverParameter Quiet() {
    caffe::SolverParameter solver = Endless();
    solver.set_display(100'000);
    return solver;
  }
  // Switches to a net whose loss is never finite.
  caffe::SolverParameter Overflowing(caffe::SolverParameter solver) {
    WriteFile(work_ / "overflowing.prototxt", OverflowingText(work_.Net()));
    solver.set_net(work_ / "overflowing.prototxt");
    return solver;
  }
};

TEST_F(FailingNode, ThatHadALossThatIsNotFiniteEndsTheOthersWithAnErrorAfterTheyHaveSaved) {
  const caffe::SolverParameter solver = Quiet();
  Start(0, solver);
  Await(0, "The run begins with the weights of this node");
  Start(1, Overflowing(solver));
  const std::string own = FinishWithError(1);
  EXPECT_CONTAINS(own, "the loss is not finite");
  Await(0, "node b has failed: iteration ");
  nodes_[0]->Signal(SIGINT);
  const std::string line = FinishWithError(0);
  EXPECT_CONTAINS(line, "node b ended with a loss that is not finite");
  EXPECT_CONTAINS(line, "the model may not be usable");
  EXPECT_EQ(Snapshots(), 1);
}

// A stop is not the end of the schedule: what the weights have got from the node is not known to be
// sound.
TEST_F(FailingNode, ThatIsStartedAgainAndStoppedLeavesItsError) {
  const caffe::SolverParameter solver = Quiet();
  Start(0, solver);
  Await(0, "The run begins with the weights of this node");
  Start(1, Overflowing(solver));
  FinishWithError(1);
  Await(0, "node b has failed: iteration ");
  Start(1, solver);
  Await(1, "Joined the run");
  nodes_[1]->Signal(SIGINT);
  Finish(1);
  nodes_[0]->Signal(SIGINT);
  EXPECT_CONTAINS(FinishWithError(0), "node b ended with a loss that is not finite");
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(FailingNode, ThatIsGoneIsKnownToANodeThatJoinsLater) {
  size_ = 3;
  WriteFile(
      work_ / "topology.prototxt",
      StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
             " node { name: 'b' address: '127.0.0.2' }", " node { name: 'c' address: '127.0.0.3' }",
             " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  const caffe::SolverParameter solver = Quiet();
  Start(0, solver);
  Await(0, "The run begins with the weights of this node");
  Start(1, Overflowing(solver));
  FinishWithError(1);
  Start(2, solver);
  Await(2, "node b has failed: the loss is not finite (node a reports it)");
  for (const int node : {0, 2}) nodes_[node]->Signal(SIGINT);
  for (const int node : {0, 2}) {
    EXPECT_CONTAINS(FinishWithError(node), "node b ended with a loss that is not finite");
  }
  EXPECT_EQ(Snapshots(), 1);
}

// 0.8 MB of weights at 0.1 Mbit/s take 73 s, and the run less than four times that: as long as the
// solver makes more than 140 iterations per second, under a sanitizer as well.
TEST_F(ClusterOfNodes, RefusesARunThatEndsBeforeItsNodesCouldLearnFromEachOther) {
  size_ = 1;  // the other node never starts
  SmallNet net = work_.Net();
  net.hidden = 3000;
  work_.WriteNet(net);
  WriteFile(work_ / "topology.prototxt",
            StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                   " node { name: 'b' address: '127.0.0.2' }",
                   " segment { name: 's' transport: 'udp' max_mbps: 0.1 port: ", FreePort(), " }"));
  caffe::SolverParameter solver = Solver(40000);
  solver.set_display(0);
  Start(0, solver);
  const std::string line = FinishWithError(0);
  EXPECT_CONTAINS(line, "segment s: an exchange of its ");
  EXPECT_CONTAINS(line, " at 0.1 Mbit/s (max_mbps)");
  EXPECT_CONTAINS(line, "expected time for 4 exchanges; any of these helps: a higher max_mbps");
}

class UnlikeNodes : public ClusterOfNodes {
 protected:
  UnlikeNodes() {
    size_ = 2;
    WriteFile(work_ / "topology.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  }
};

TEST_F(UnlikeNodes, NameTheSettingsThatDiffer) {
  caffe::SolverParameter solver = Endless(), other = Endless();
  solver.set_base_lr(0.01f);
  other.set_base_lr(0.5f);
  Start(0, solver);
  Start(1, other);
  Await(0,
        "node b has another base_lr: 0.5, here 0.01; expected equal solvers and nets on all nodes");
  Await(1,
        "node a has another base_lr: 0.01, here 0.5; expected equal solvers and nets on all nodes");
  StopAll();
}

TEST_F(UnlikeNodes, DoNotTrainTogetherTowardsAnotherEnd) {
  caffe::SolverParameter other = Endless();
  other.set_max_iter(300);
  Start(0, Endless());
  AwaitIteration(0, 100);
  Start(1, other);
  const CommandResult refused = nodes_[1]->Wait();
  nodes_.erase(1);
  EXPECT_EQ(refused.status, 1);
  EXPECT_CONTAINS(refused.errors,
                  "millrace: segment s: node a has another max_iter: 1000000000, here 300");
  Await(0, "Refused: node b has another max_iter: 300, here 1000000000");
  StopAll();
}

}  // namespace
}  // namespace millrace::test
