// Effects of the fields of a solver file on a run.
#include <cmath>

#include "test/train/train_support.h"

namespace millrace::test {
namespace {

TEST(SolverFields, IterSizeEqualsABiggerBatch) {
  Workspace work;
  SmallNet net = work.Net();
  net.batch = 16;
  work.WriteNet(net);
  const Outcome big = RunNamed(work, "big", Workspace::Solver(15));
  net.batch = 4;
  work.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(15);
  solver.set_iter_size(4);
  const Outcome small = RunNamed(work, "small", solver);
  const auto expected = big.Losses();
  for (const auto& [iteration, loss] : small.Losses()) {
    EXPECT_NEAR(loss, expected.at(iteration), 1e-4) << iteration;
  }
  EXPECT_LT(expected.at(14), 0.7 * expected.at(0));
}

// The dropout mask of a pass equals that of an iteration with the same number.
TEST(SolverFields, EveryPassHasRandomNumbersOfItsOwn) {
  Workspace work;
  SmallNet net = work.Net();
  net.dropout = true;
  work.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(8);
  solver.set_base_lr(1e-20f);  // no weight changes
  const auto single = RunNamed(work, "single", solver).Losses();
  solver.set_max_iter(4);
  solver.set_iter_size(2);
  for (const auto& [iteration, loss] : RunNamed(work, "two", solver).Losses()) {
    EXPECT_NEAR(loss, (single.at(2 * iteration) + single.at(2 * iteration + 1)) / 2, 1e-5);
  }
}

TEST(SolverFields, AverageLossIsTheMeanOfTheLastIterations) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(12);
  const auto single = RunNamed(work, "single", solver).Losses();
  solver.set_average_loss(4);
  for (const auto& [iteration, loss] : RunNamed(work, "mean", solver).Losses()) {
    double sum = 0;
    const int64_t first = std::max<int64_t>(0, iteration - 3);
    for (int64_t i = first; i <= iteration; ++i) sum += single.at(i);
    EXPECT_NEAR(loss, sum / static_cast<double>(iteration - first + 1), 1e-5) << iteration;
  }
}

TEST(SolverFields, ClipGradientsBoundsTheNormOfAStep) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(1);
  solver.set_momentum(0);
  solver.set_weight_decay(0);
  solver.set_clip_gradients(0.01f);
  RunNamed(work, "clipped", solver);
  solver.set_max_iter(0);
  RunNamed(work, "start", solver);
  const caffe::NetParameter before = LoadModel(work.Snapshot("start", 0) + ".caffemodel");
  const caffe::NetParameter after = LoadModel(work.Snapshot("clipped", 1) + ".caffemodel");
  double squares = 0;
  for (int l = 0; l < before.layer_size(); ++l) {
    for (int b = 0; b < before.layer(l).blobs_size(); ++b) {
      const auto& x = before.layer(l).blobs(b).data();
      const auto& y = after.layer(l).blobs(b).data();
      const double rate = 0.05 * (b == 0 ? 1 : 2);  // lr_mult of weights and bias
      for (int i = 0; i < x.size(); ++i) squares += std::pow((y[i] - x[i]) / rate, 2);
    }
  }
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-4);
}

TEST(SolverFields, WeightsStartTheRunFromAModel) {
  Workspace work;
  RunNamed(work, "first", Workspace::Solver(5));
  caffe::SolverParameter solver = Workspace::Solver(0);
  TrainOptions options;
  options.weights = {work.Snapshot("first", 5) + ".caffemodel"};
  RunNamed(work, "flag", solver, options);
  EXPECT_EQ(WeightsOf(work, "flag", 0), WeightsOf(work, "first", 5));
  solver.add_weights(options.weights[0]);
  RunNamed(work, "field", solver);
  EXPECT_EQ(WeightsOf(work, "field", 0), WeightsOf(work, "first", 5));
}

TEST(SolverFields, LaterWeightsReplaceEarlierOnesInListsAndRepeatedFields) {
  Workspace work;
  RunNamed(work, "first", Workspace::Solver(5));
  caffe::SolverParameter hdf5 = Workspace::Solver(6);
  hdf5.set_snapshot_format(caffe::SolverParameter::HDF5);
  const std::string first = work.Snapshot("first", 5) + ".caffemodel";
  const std::string second = RunNamed(work, "second", hdf5).result.model;
  caffe::SolverParameter solver = Workspace::Solver(0);
  solver.add_weights(first + " , " + second);
  RunNamed(work, "list", solver);
  EXPECT_EQ(WeightsOf(work, "list", 0), WeightsOf(LoadModel(second)));
  solver.add_weights(first);
  RunNamed(work, "repeated", solver);
  EXPECT_EQ(WeightsOf(work, "repeated", 0), WeightsOf(work, "first", 5));
}

TEST(SolverFields, ATestNetWithoutBatchesHasNoOutputs) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(4), 4);
  solver.add_test_iter(0);
  const Outcome outcome = RunNamed(work, "run", solver);
  ASSERT_EQ(outcome.result.tests.size(), 2u);
  EXPECT_FALSE(outcome.result.tests[0].outputs.empty());
  EXPECT_TRUE(outcome.result.tests[1].outputs.empty());
}

TEST(SolverFields, NegativeIntervalsCountAsPositiveOnes) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(6);
  solver.set_display(-2);
  solver.set_snapshot(-4);
  const Outcome outcome = RunNamed(work, "run", solver);
  EXPECT_EQ(outcome.Losses().size(), 3u);
  EXPECT_FALSE(WeightsOf(work, "run", 4).empty());
}

TEST(SolverFields, SnapshotDiffSavesGradientsToo) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(2);
  solver.set_snapshot_diff(true);
  RunNamed(work, "run", solver);
  int with_diff = 0;
  const caffe::NetParameter model = LoadModel(work.Snapshot("run", 2) + ".caffemodel");
  for (const auto& layer : model.layer()) {
    for (const auto& blob : layer.blobs()) {
      EXPECT_EQ(blob.diff_size(), blob.data_size());
      ++with_diff;
    }
  }
  EXPECT_EQ(with_diff, 4);
}

TEST(SolverFields, TestInitializationFalseSkipsTheTestAtTheStart) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(10), 5);
  EXPECT_EQ(RunNamed(work, "a", solver).Tests(), (std::vector<int64_t>{0, 5, 10}));
  solver.set_test_initialization(false);
  EXPECT_EQ(RunNamed(work, "b", solver).Tests(), (std::vector<int64_t>{5, 10}));
}

TEST(SolverFields, SeveralTestNetsAreTestedInOrder) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(4), 4);
  solver.add_test_iter(1);
  solver.add_test_state()->set_level(0);
  solver.add_test_state()->add_stage("other");
  const Outcome outcome = RunNamed(work, "run", solver);
  EXPECT_EQ(outcome.Tests(0), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(outcome.Tests(1), (std::vector<int64_t>{0, 4}));
  ASSERT_EQ(outcome.result.tests.size(), 2u);
  EXPECT_EQ(outcome.result.tests[0].batches, 2);
  EXPECT_EQ(outcome.result.tests[1].batches, 1);
}

TEST(SolverFields, EverySourceOfALayerIsTrainedOn) {
  // Each database has two classes: a net trained on one alone cannot tell the classes of the other
  // apart.
  Workspace work;
  Images first, second;
  first.classes = second.classes = 2;
  second.pattern_seed = 5;
  second.first_label = 2;
  first.WriteDatabase(work / "first");
  second.WriteDatabase(work / "second");
  SmallNet net = work.Net();
  net.train_sources = net.test_sources = {work / "first", work / "second"};
  work.WriteNet(net);
  const Outcome outcome = RunNamed(work, "run", Workspace::Tested(Workspace::Solver(80), 80));
  EXPECT_EQ(StateOf(work, "run", 80).stream(0).records(), 128u);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.95);
}

TEST(SolverFields, AShardIsThePartOfTheRecordsThatItSays) {
  // Records alternate between two classes, so each shard has one class only.
  Images images;
  images.classes = 2;
  Workspace work(images);
  for (uint64_t shard : {0, 1}) {
    TrainOptions options;
    options.shard_index = shard;
    options.shard_count = 2;
    const std::string name = StrCat("shard", shard);
    const Outcome outcome =
        RunNamed(work, name, Workspace::Tested(Workspace::Solver(30), 30), options);
    EXPECT_EQ(StateOf(work, name, 30).stream(0).records(), 32u);
    EXPECT_LT(outcome.result.loss, 0.1);              // on its own class
    EXPECT_EQ(outcome.FinalOutput("accuracy"), 0.5);  // on the whole test set
  }
}

TEST(Metrics, BeginWithTheRunAndHoldEveryDisplayAndTest) {
  Workspace work;
  const Outcome outcome = RunNamed(work, "run", Workspace::Tested(Workspace::Solver(4), 2));
  ASSERT_EQ(outcome.rows.size(), 1u + 4 + 3);
  const RunInfo& run = outcome.rows[0].run();
  EXPECT_EQ(run.name(), "small");
  EXPECT_EQ(run.solver(), work / "run.prototxt");
  EXPECT_EQ(run.solvers(), 1);
  EXPECT_EQ(run.max_iter(), 4);
  EXPECT_EQ(run.seed(), 7u);
  double time = 0;
  for (const MetricsRow& row : outcome.rows) {
    EXPECT_GE(row.time(), time);
    time = row.time();
    if (row.has_test()) {
      EXPECT_EQ(row.test().outputs().count("accuracy"), 1u);
      EXPECT_EQ(row.test().outputs().count("loss"), 1u);
    }
  }
  EXPECT_EQ(outcome.rows.back().test().outputs().at("accuracy"), outcome.FinalOutput("accuracy"));
}

}  // namespace
}  // namespace millrace::test
