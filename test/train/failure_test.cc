// A run that cannot continue reports the cause and keeps its snapshots.
#include <cmath>

#include "test/train/train_support.h"

namespace millrace::test {
namespace {

class Failing : public testing::TestWithParam<int> {};  // solvers

TEST_P(Failing, ALossThatIsNotFiniteNamesIterationAndLayerAndKeepsSnapshots) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(1000);
  solver.set_lr_policy("multistep");  // the rate is normal at first, then far too large
  solver.add_stepvalue(400);  // late, because the first snapshot may have to wait for a solver
  solver.set_gamma(1e25f);
  solver.set_snapshot(50);
  const std::string error =
      ErrorOf([&] { RunNamed(work, "run", solver, WithSolvers(GetParam())); });
  EXPECT_EQ(error.find("iteration "), 0u) << error;
  EXPECT_CONTAINS(error, "the loss is not finite (");
  EXPECT_CONTAINS(error, "layer '");
  EXPECT_CONTAINS(error, "not finite");
  for (float weight : WeightsOf(work, "run", 50)) ASSERT_TRUE(std::isfinite(weight));
  EXPECT_EQ(StateOf(work, "run", 50).iter(), 50);
  EXPECT_LT(work.FilesWith("run_iter").size(), 40u);
}

TEST_P(Failing, ALabelOutsideTheClassesIsNamed) {
  Images images;
  images.first_label = 3;  // labels 3 to 6; the net has 4 classes
  Workspace work(images);
  const std::string error =
      ErrorOf([&] { RunNamed(work, "run", Workspace::Solver(10), WithSolvers(GetParam())); });
  EXPECT_CONTAINS(error, "layer 'loss'");
  EXPECT_CONTAINS(error, "label 4");
  EXPECT_TRUE(work.FilesWith("run_iter").empty());
}

TEST_P(Failing, ASnapshotThatCannotBeWrittenDoesNotEndTheRun) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.set_snapshot(5);
  // A directory occupies the path of the model.
  MakeDirectories(work.Snapshot("run", 5) + ".caffemodel/in the way");
  RunNamed(work, "run", solver, WithSolvers(GetParam()));
  EXPECT_FALSE(FileExists(work.Snapshot("run", 5) + ".solverstate"));
  for (const int iteration : {10, 15, 20})
    EXPECT_EQ(StateOf(work, "run", iteration).iter(), iteration);
}

INSTANTIATE_TEST_SUITE_P(Solvers, Failing, testing::Values(1, 3));

TEST(FailingTest, ALastSnapshotThatCannotBeWrittenIsNamedAtTheStart) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(5);
  solver.set_snapshot(5);
  MakeDirectories(work.Snapshot("run", 5) + ".caffemodel/in the way");
  const std::string error = ErrorOf([&] { RunNamed(work, "run", solver, WithSolvers(2)); });
  EXPECT_CONTAINS(error, "snapshot_prefix: the last snapshot cannot be written: " +
                             work.Snapshot("run", 5) + ".caffemodel: is a folder");
  EXPECT_EQ(work.FilesWith("run_iter").size(), 1u);  // only the blocking directory
}

TEST(FailingTest, ALabelOutsideTheClassesOfATestNetIsNamed) {
  Workspace work;
  Images images;
  images.first_label = 2;
  images.WriteDatabase(work / "odd_lmdb");
  SmallNet net = work.Net();
  net.test_sources = {work / "odd_lmdb"};
  work.WriteNet(net);
  const std::string error =
      ErrorOf([&] { RunNamed(work, "run", Workspace::Tested(Workspace::Solver(10), 5)); });
  EXPECT_CONTAINS(error, "label 4");
}

TEST(Options, ThatCannotBeAreRefusedBeforeAnythingIsRead) {
  TrainOptions options;
  options.solver_file = "/does/not/exist";
  options.solvers = 0;
  EXPECT_EQ(ErrorOf([&] { Train(options); }), "--cpu=0: expected at least 1 solver");
  options.solvers = 1;
  options.weights = {"a.caffemodel"};
  options.snapshot = "b.solverstate";
  EXPECT_CONTAINS(ErrorOf([&] { Train(options); }), "--weights and --snapshot");
  options.weights.clear();
  options.shard_index = options.shard_count = 3;
  EXPECT_CONTAINS(ErrorOf([&] { Train(options); }), "--shard=3/3: expected i/n with 0 <= i < n");
  options.shard_index = 2;
  EXPECT_CONTAINS(ErrorOf([&] { Train(options); }), "/does/not/exist");
}

}  // namespace
}  // namespace millrace::test
