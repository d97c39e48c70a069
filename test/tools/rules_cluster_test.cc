// Every update rule on two nodes of a cluster.
#include "base/error.h"
#include "test/support/cluster_of_nodes.h"
#include "test/support/free_port.h"

namespace millrace::test {
namespace {

class RulesCluster : public ClusterOfNodes {
 protected:
  RulesCluster() {
    size_ = 2;
    WriteFile(work_ / "topology.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
    // An iteration lasts longer than an exchange, also on a busy machine: steps of these rules do
    // not shrink with the gradient.
    SmallNet net = work_.Net();
    net.batch = 512;
    net.hidden = 128;
    net.convolution = true;
    work_.WriteNet(net);
  }
  // The rule of this number among the adaptive ones, on a schedule that lets both nodes take part.
  void Learn(int rule) {
    caffe::SolverParameter solver = Workspace::AdaptiveSolvers(400)[rule];
    // Once the net has learnt, gradients vanish. Steps of these rules do not, without a larger
    // delta: with AdaGrad, those of weights that have had no gradient before. They become small at
    // the end, however late the last ones of the other node arrive.
    if (solver.type() != "AdaDelta") {
      solver.set_base_lr(0.2f * solver.base_lr());
      solver.set_delta(0.01f);
      solver.set_lr_policy("step");
      solver.set_gamma(0.1f);
      solver.set_stepsize(300);
    }
    solver.set_display(100);
    TrainToAccuracy(Workspace::Tested(solver, 400));
  }
};

TEST_F(RulesCluster, LearnsByAdaGrad) { Learn(0); }
TEST_F(RulesCluster, LearnsByRmsProp) { Learn(1); }
TEST_F(RulesCluster, LearnsByAdaDelta) { Learn(2); }
TEST_F(RulesCluster, LearnsByAdam) { Learn(3); }

// The parts of the nodes, too, are in the format of the solver file.
TEST_F(RulesCluster, ResumesFromHdf5Snapshots) {
  caffe::SolverParameter solver = Workspace::AdaptiveSolvers(300)[3];
  solver.set_display(100);
  solver.set_snapshot_prefix(work_ / "run");
  solver.set_snapshot_format(caffe::SolverParameter::HDF5);
  StartAll(solver);
  for (int i = 0; i < 2; ++i) Finish(i);
  solver.set_max_iter(500);
  const std::string state = work_.Snapshot("run", 300) + ".solverstate.h5";
  for (int i = 0; i < 2; ++i) Start(i, solver, "topology.prototxt", state);
  for (int i = 0; i < 2; ++i) {
    EXPECT_CONTAINS(Finish(i).errors, StrCat("Resuming from ", work_.Snapshot("run", 300), ".",
                                             NameOf(i), ".solverstate.h5 at iteration 300"));
  }
  EXPECT_EQ(work_.FilesWith("run_iter_500.caffemodel.h5").size(), 1u);
}

}  // namespace
}  // namespace millrace::test
