// Compares Millrace with files that Caffe trained, saved and printed. test/caffe/fixture/README.md
// lists the commands that produced them.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/convert.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "test/train/train_support.h"
#include "train/evaluation/evaluator.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

// Caffe prints six digits, and the rounding of sums depends on the processor.
constexpr double kRelative = 1e-4, kAbsolute = 1e-5;

void ExpectNear(double ours, double caffes, const std::string& what) {
  EXPECT_NEAR(ours, caffes, kAbsolute + kRelative * std::abs(caffes)) << what;
}

class CaffeFixture : public testing::Test {
 protected:
  CaffeFixture() {
    std::filesystem::copy("test/caffe/fixture", folder_.path(),
                          std::filesystem::copy_options::recursive);
    // Data paths are relative to the working directory.
    caffe::NetParameter net;
    LoadText(folder_ / "net.prototxt", &net, nullptr);
    for (int i : {0, 1}) {
      caffe::LayerParameter* layer = net.mutable_layer(i);
      auto* mean = layer->mutable_transform_param()->mutable_mean_file();
      auto* source = layer->mutable_data_param()->mutable_source(0);
      for (std::string* path : {mean, source}) *path = folder_ / *path;
    }
    WriteFile(folder_ / "net.prototxt", net.DebugString());
  }

  // Lines of a table, split into words.
  std::vector<std::vector<std::string>> Table(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      rows.emplace_back(std::istream_iterator<std::string>(words),
                        std::istream_iterator<std::string>());
    }
    EXPECT_FALSE(rows.empty()) << name;
    return rows;
  }

  // Trains according to solver.prototxt; snapshot names begin with "ours".
  Outcome TrainFrom(TrainOptions options) const {
    caffe::SolverParameter solver;
    LoadText(folder_ / "solver.prototxt", &solver, nullptr);
    solver.set_snapshot_prefix(folder_ / "ours");
    solver.set_net(folder_ / "net.prototxt");
    options.solver_file = folder_ / "ours.prototxt";
    WriteFile(options.solver_file, solver.DebugString());
    options.metrics = folder_ / "ours.jsonl";
    Outcome outcome;
    outcome.result = Train(options);
    outcome.rows = ReadMetrics(options.metrics);
    return outcome;
  }
  Outcome TrainFromCaffesWeights() const {
    TrainOptions options;
    options.weights = {folder_ / "caffe_iter_0.caffemodel"};
    return TrainFrom(options);
  }

  // Expects the loss and learning rate of every iteration to equal those in table `name`.
  void ExpectCurve(const Outcome& outcome, const std::string& name) const {
    std::map<int64_t, std::pair<double, double>> ours;
    for (const MetricsRow& row : outcome.rows) {
      if (row.has_train()) ours[row.iter()] = {row.train().loss(), row.train().learning_rate()};
    }
    const auto rows = Table(name);
    EXPECT_EQ(ours.size(), rows.size());
    for (const auto& row : rows) {
      const int64_t iteration = std::stoll(row.at(0));
      ASSERT_TRUE(ours.count(iteration)) << iteration;
      ExpectNear(ours[iteration].first, std::stod(row.at(1)), StrCat("loss of ", iteration));
      ExpectNear(ours[iteration].second, std::stod(row.at(2)), StrCat("rate of ", iteration));
    }
  }

  TempDir folder_;
};

TEST_F(CaffeFixture, EveryOutputOfAModelIsWhatCaffePrinted) {
  caffe::NetParameter param;
  SourceMap source;
  LoadText(folder_ / "net.prototxt", &param, &source);
  DataService data(DataOptions{});
  BuiltNetOptions options;
  options.state.set_phase(caffe::TEST);
  options.data = &data;
  BuiltNet net(param, source, options);
  const auto weights = WeightBuffer::CreatePrivate(net.layout());
  net.BindWeights(weights->data());
  LoadWeights(folder_ / "caffe_iter_60.caffemodel", &net);

  std::map<std::string, std::vector<double>> ours, caffes;  // by batch and output
  Evaluate(
      &net, 4, [] { return false; },
      [&](int batch, const std::vector<OutputMean>& outputs) {
        for (const OutputMean& output : outputs) {
          ours[StrCat(batch, " ", output.name)].push_back(output.mean);
        }
      });
  for (const auto& row : Table("scores.txt")) {
    caffes[row.at(0) + " " + row.at(1)].push_back(std::stod(row.at(2)));
  }
  ASSERT_EQ(ours.size(), 4u * 3);
  for (const auto& [name, values] : caffes) {
    ASSERT_EQ(ours[name].size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      ExpectNear(ours[name][i], values[i], StrCat(name, " ", i));
    }
  }
}

TEST_F(CaffeFixture, LossesAndTestsFollowCaffesFromTheSameWeights) {
  const Outcome outcome = TrainFromCaffesWeights();
  ExpectCurve(outcome, "train.txt");
  const auto tests = Table("tests.txt");
  ASSERT_EQ(outcome.Tests().size(), tests.size());
  size_t index = 0;
  for (const MetricsRow& row : outcome.rows) {
    if (!row.has_test()) continue;
    const auto& expected = tests.at(index++);
    EXPECT_EQ(row.iter(), std::stoll(expected.at(0)));
    ExpectNear(row.test().outputs().at("accuracy"), std::stod(expected.at(1)), "accuracy");
    ExpectNear(row.test().outputs().at("loss"), std::stod(expected.at(2)), "test loss");
  }
}

TEST_F(CaffeFixture, ASnapshotHoldsTheWeightsAndTheMomentumOfCaffes) {
  TrainFromCaffesWeights();
  const auto ours = LoadResumePoint(folder_ / "ours_iter_38.solverstate").state;
  const auto caffes = LoadResumePoint(folder_ / "caffe_iter_38.solverstate").state;
  EXPECT_EQ(ours.iter(), 38);
  EXPECT_EQ(caffes.iter(), 38);
  EXPECT_EQ(ours.current_step(), caffes.current_step());
  ASSERT_EQ(ours.history_size(), 8);
  ASSERT_EQ(caffes.history_size(), 8);
  for (int i = 0; i < 8; ++i) {
    const auto &a = ours.history(i), &b = caffes.history(i);
    EXPECT_EQ(a.shape().SerializeAsString(), b.shape().SerializeAsString()) << i;
    ASSERT_EQ(a.data_size(), b.data_size()) << i;
    for (int k = 0; k < a.data_size(); ++k) EXPECT_NEAR(a.data(k), b.data(k), 1e-5) << i;
  }
  const std::vector<float> a = WeightsOf(LoadModel(folder_ / "ours_iter_38.caffemodel"));
  const std::vector<float> b = WeightsOf(LoadModel(folder_ / "caffe_iter_38.caffemodel"));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << i;
}

TEST_F(CaffeFixture, ATrainingGoesOnFromCaffesSolverstateAsItDoesInCaffe) {
  TrainOptions options;
  options.snapshot = folder_ / "caffe_iter_38.solverstate";
  const Outcome outcome = TrainFrom(options);
  EXPECT_EQ(outcome.Losses().begin()->first, 38);
  ExpectCurve(outcome, "resume.txt");
}

TEST_F(CaffeFixture, TheMeanOfADatabaseIsThatOfCaffesTool) {
  EXPECT_EQ(ComputeImageMean(folder_ / "train_lmdb", folder_ / "ours.binaryproto").images, 64u);
  caffe::BlobProto ours, caffes;
  LoadBinary(folder_ / "ours.binaryproto", "a mean image", &ours);
  LoadBinary(folder_ / "mean.binaryproto", "a mean image", &caffes);
  ASSERT_EQ(caffes.data_size(), 64);
  ASSERT_EQ(ours.data_size(), 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(ours.data(i), caffes.data(i)) << i;
}

}  // namespace
}  // namespace millrace::test
