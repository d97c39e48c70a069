// With one solver and a fixed seed, a run is bit-identical however often it is resumed.
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// A net with all sources of random numbers and of state carried between iterations.
Workspace* RandomWork() {
  auto* work = new Workspace();
  SmallNet net = work->Net();
  net.convolution = net.dropout = true;
  net.data_fields = "shuffle: true rand_skip: 5";
  net.transform_fields = "crop_size: 7 mirror: true";
  work->WriteNet(net);
  return work;
}

caffe::SolverParameter TwoPasses(int iterations) {
  caffe::SolverParameter solver = Workspace::Solver(iterations);
  solver.set_iter_size(2);
  return solver;
}

TrainOptions From(const Workspace& work, const std::string& name, int64_t iteration,
                  int solvers = 1) {
  TrainOptions options = WithSolvers(solvers);
  options.snapshot = work.Snapshot(name, iteration) + ".solverstate";
  return options;
}

class Repeated : public testing::Test {
 protected:
  const std::unique_ptr<Workspace> work_{RandomWork()};
};

TEST_F(Repeated, ARunGivesTheSameWeightsBitForBit) {
  const Outcome a = RunNamed(*work_, "a", TwoPasses(12));
  const Outcome b = RunNamed(*work_, "b", TwoPasses(12));
  EXPECT_EQ(ModelFile(*work_, "a", 12), ModelFile(*work_, "b", 12));
  EXPECT_EQ(StateOf(*work_, "a", 12).SerializeAsString(),
            StateOf(*work_, "b", 12).SerializeAsString());
  EXPECT_EQ(a.Losses(), b.Losses());
  EXPECT_EQ(a.Losses().size(), 12u);
}

TEST_F(Repeated, AnotherSeedGivesOtherWeights) {
  caffe::SolverParameter other = TwoPasses(2);
  other.set_random_seed(8);
  RunNamed(*work_, "a", TwoPasses(2));
  RunNamed(*work_, "b", other);
  EXPECT_NE(ModelFile(*work_, "a", 2), ModelFile(*work_, "b", 2));
}

TEST_F(Repeated, AResumedRunEndsWithTheWeightsOfTheUninterruptedOne) {
  caffe::SolverParameter solver = TwoPasses(24);
  solver.set_snapshot(9);  // in the middle of an epoch
  const Outcome whole = RunNamed(*work_, "whole", solver);
  const Outcome rest = RunNamed(*work_, "rest", solver, From(*work_, "whole", 9));
  EXPECT_EQ(ModelFile(*work_, "whole", 24), ModelFile(*work_, "rest", 24));
  EXPECT_EQ(StateOf(*work_, "whole", 24).SerializeAsString(),
            StateOf(*work_, "rest", 24).SerializeAsString());
  std::map<int64_t, double> expected = whole.Losses();
  expected.erase(expected.begin(), expected.find(9));
  EXPECT_EQ(rest.Losses(), expected);
}

// By rule and format of the snapshots.
TEST_F(Repeated, NIterationsAndNMoreAreTwiceNByEveryRuleInBothFormats) {
  std::vector<caffe::SolverParameter> solvers = Workspace::AdaptiveSolvers(16);
  for (const char* type : {"SGD", "Nesterov"}) {
    solvers.push_back(Workspace::Solver(16));
    solvers.back().set_type(type);
  }
  for (caffe::SolverParameter& solver : solvers) {
    solver.set_snapshot(8);
    for (const auto format : {caffe::SolverParameter::BINARYPROTO, caffe::SolverParameter::HDF5}) {
      const bool hdf5 = format == caffe::SolverParameter::HDF5;
      const std::string name = solver.type() + (hdf5 ? "H" : "B"), ending = hdf5 ? ".h5" : "";
      SCOPED_TRACE(name);
      solver.set_snapshot_format(format);
      const Outcome whole = RunNamed(*work_, name, solver);
      EXPECT_EQ(whole.result.model, work_->Snapshot(name, 16) + ".caffemodel" + ending);
      EXPECT_EQ(whole.result.state, work_->Snapshot(name, 16) + ".solverstate" + ending);
      TrainOptions options;
      options.snapshot = work_->Snapshot(name, 8) + ".solverstate" + ending;
      const Outcome rest = RunNamed(*work_, name + "rest", solver, options);
      EXPECT_EQ(WeightsOf(LoadModel(rest.result.model)), WeightsOf(LoadModel(whole.result.model)));
      caffe::SolverState expected = LoadResumePoint(whole.result.state).state;
      caffe::SolverState state = LoadResumePoint(rest.result.state).state;
      for (caffe::SolverState* each : {&expected, &state}) {
        each->clear_learned_net();
        each->clear_stream();  // batches may have been read ahead
      }
      EXPECT_EQ(state.SerializeAsString(), expected.SerializeAsString());
      EXPECT_EQ(rest.Losses().at(15), whole.Losses().at(15));
    }
  }
}

TEST(Resume, EachSolverContinuesTheCountOfItsOwnUpdates) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::AdaptiveSolvers(40).back();
  ASSERT_EQ(solver.type(), "Adam");
  solver.set_snapshot(20);
  for (const auto format : {caffe::SolverParameter::BINARYPROTO, caffe::SolverParameter::HDF5}) {
    solver.set_snapshot_format(format);
    const Outcome whole = RunNamed(work, "whole", solver, WithSolvers(2));
    const auto updates = [](const caffe::SolverState& state) {
      // A solver that had not begun when a snapshot was taken has no history in it.
      const auto count = [](const auto& history) {
        return history.empty() ? 0 : history[0].updates();
      };
      return std::vector<int64_t>{count(state.history()), count(state.solver_history(0).history())};
    };
    const std::vector<int64_t> all = updates(LoadResumePoint(whole.result.state).state);
    EXPECT_EQ(all[0] + all[1], 40);
    TrainOptions options = WithSolvers(2);
    options.snapshot = SnapshotPathsOf(work / "whole", 20, format).state;
    const std::vector<int64_t> half = updates(LoadResumePoint(options.snapshot).state);
    const Outcome rest = RunNamed(work, "rest", solver, options);
    const std::vector<int64_t> resumed = updates(LoadResumePoint(rest.result.state).state);
    EXPECT_EQ(resumed[0] + resumed[1], half[0] + half[1] + 20);
    EXPECT_GE(resumed[0], half[0]);
    EXPECT_GE(resumed[1], half[1]);
  }
}

TEST_F(Repeated, ARunThatStoppedByItsScheduleGoesOnWhenTheScheduleIsLonger) {
  RunNamed(*work_, "whole", TwoPasses(16));
  RunNamed(*work_, "short", TwoPasses(7));
  RunNamed(*work_, "rest", TwoPasses(16), From(*work_, "short", 7));
  EXPECT_EQ(ModelFile(*work_, "whole", 16), ModelFile(*work_, "rest", 16));
}

TEST_F(Repeated, TheSeedOfTheSnapshotCountsWhenTheSolverDrawsOne) {
  caffe::SolverParameter solver = TwoPasses(12);
  solver.clear_random_seed();
  solver.set_snapshot(5);
  RunNamed(*work_, "whole", solver);
  RunNamed(*work_, "rest", solver, From(*work_, "whole", 5));
  EXPECT_EQ(ModelFile(*work_, "whole", 12), ModelFile(*work_, "rest", 12));
}

TEST_F(Repeated, TestsDoNotDisturbTheTraining) {
  RunNamed(*work_, "untested", TwoPasses(12));
  RunNamed(*work_, "tested", Workspace::Tested(TwoPasses(12), 3));
  EXPECT_EQ(ModelFile(*work_, "untested", 12), ModelFile(*work_, "tested", 12));
}

TEST(Resume, ARunOfNSolversGoesOnWithNOrAnyOtherNumber) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.set_snapshot(10);
  for (int before : {1, 3}) {
    const std::string name = StrCat("from", before);
    RunNamed(work, name, solver, WithSolvers(before));
    EXPECT_EQ(StateOf(work, name, 10).solver_history_size(), before - 1);
    for (int after : {1, 3, 4}) {
      const std::string next = StrCat(name, "to", after);
      const Outcome outcome = RunNamed(work, next, solver, From(work, name, 10, after));
      const std::map<int64_t, double> losses = outcome.Losses();
      EXPECT_EQ(losses.size(), 10u) << next;
      EXPECT_EQ(losses.begin()->first, 10) << next;
      EXPECT_EQ(losses.rbegin()->first, 19) << next;
      EXPECT_EQ(StateOf(work, next, 20).solver_history_size(), after - 1);
    }
  }
}

TEST(Resume, AStateWithoutMillracesFieldsResumesAsCaffesDo) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(8);
  solver.set_snapshot(4);
  RunNamed(work, "whole", solver);
  const std::string path = work.Snapshot("whole", 4) + ".solverstate";
  caffe::SolverState state = LoadResumePoint(path).state;
  state.clear_stream();
  state.clear_seed();
  SaveBinary(work / "caffe.solverstate", state);
  TrainOptions options;
  options.snapshot = work / "caffe.solverstate";
  const Outcome rest = RunNamed(work, "rest", solver, options);
  EXPECT_EQ(rest.Losses().begin()->first, 4);
  EXPECT_EQ(rest.result.iteration, 8);
  // The run restarts from the first batch, on the weights of iteration 4.
  EXPECT_NE(rest.Losses()[4], ReadMetrics(work / "whole.jsonl").at(5).train().loss());
}

TEST(Resume, GoesOnWithAnotherBatchSizeOrOtherData) {
  Workspace work;
  RunNamed(work, "a", Workspace::Solver(3));
  SmallNet net = work.Net();
  net.batch = 4;
  work.WriteNet(net);
  RunNamed(work, "b", Workspace::Solver(5), From(work, "a", 3));
  caffe::SolverState state = StateOf(work, "b", 5);
  EXPECT_EQ(state.iter(), 5);
  ASSERT_EQ(state.stream_size(), 1);
  EXPECT_EQ(state.stream(0).batch_size(), 4u);
  EXPECT_EQ(state.stream(0).next_batch(), 5u);
  EXPECT_EQ(state.stream(0).assignment(0).place(), 24u);  // of batch 3
  EXPECT_NE(WeightsOf(work, "b", 5), WeightsOf(work, "a", 3));
  net.batch = 8;
  net.train_sources = net.test_sources;
  work.WriteNet(net);
  RunNamed(work, "c", Workspace::Solver(6), From(work, "b", 5));
  EXPECT_EQ(StateOf(work, "c", 6).stream(0).records(), 32u);
}

TEST(Resume, BeyondMaxIterTrainsNothingAndOverwritesNothing) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(20), 5);
  solver.set_snapshot(10);
  RunNamed(work, "a", solver);
  const std::string ten = ModelFile(work, "a", 10), twenty = ModelFile(work, "a", 20);
  const std::string state = ReadFile(work.Snapshot("a", 20) + ".solverstate");
  solver.set_max_iter(10);
  const Outcome less = RunNamed(work, "a", solver, From(work, "a", 20));
  EXPECT_EQ(less.result.iteration, 20);
  EXPECT_EQ(less.result.model, work.Snapshot("a", 20) + ".caffemodel");
  EXPECT_EQ(ModelFile(work, "a", 10), ten);
  EXPECT_EQ(ModelFile(work, "a", 20), twenty);
  EXPECT_EQ(ReadFile(work.Snapshot("a", 20) + ".solverstate"), state);
  EXPECT_EQ(less.result.tests.size(), 1u);
  // A snapshot under another name is one of iteration 20.
  RunNamed(work, "b", solver, From(work, "a", 20));
  EXPECT_EQ(WeightsOf(work, "b", 20), WeightsOf(work, "a", 20));
  EXPECT_EQ(work.FilesWith("b_iter").size(), 2u);
}

// Solvers that did not take part would lose their histories in a snapshot that is written again.
TEST(Resume, AtMaxIterLeavesTheSnapshotAsItIs) {
  Workspace work;
  RunNamed(work, "a", Workspace::Solver(10), WithSolvers(2));
  const std::string state = ReadFile(work.Snapshot("a", 10) + ".solverstate");
  RunNamed(work, "a", Workspace::Solver(10), From(work, "a", 10));
  EXPECT_EQ(ReadFile(work.Snapshot("a", 10) + ".solverstate"), state);
}

TEST(Resume, AMultistepScheduleKeepsTheStepsThatItHasTaken) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(6);
  solver.set_lr_policy("multistep");
  solver.set_base_lr(0.1f);
  solver.set_gamma(0.5f);
  solver.set_display(1);
  solver.add_stepvalue(4);
  RunNamed(work, "a", solver);
  solver.set_max_iter(12);
  solver.clear_stepvalue();
  for (const int value : {8, 9}) solver.add_stepvalue(value);
  const Outcome rest = RunNamed(work, "b", solver, From(work, "a", 6));
  std::vector<double> rates;
  for (const MetricsRow& row : rest.rows) {
    if (row.has_train()) rates.push_back(row.train().learning_rate());
  }
  // The first of the new stepvalues has been taken.
  const float first = 0.05f, second = 0.025f;
  EXPECT_EQ(rates, (std::vector<double>{first, first, first, second, second, second}));
  EXPECT_EQ(StateOf(work, "b", 12).current_step(), 2);
}

}  // namespace
}  // namespace millrace::test
