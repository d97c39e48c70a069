// Records of two databases that belong together stay together in training, with any number and kind
// of solvers and after resumes.
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Two databases whose records have the same labels; the loss is the squared distance of the labels,
// and the only weights do not change it.
class PairedData : public testing::Test {
 protected:
  PairedData() {
    WriteDatabase("images", 37);
    WriteDatabase("labels", 37);
    WriteNet("");
  }
  void WriteDatabase(const std::string& name, int records) {
    Images{.count = records, .side = 3, .classes = records}.WriteDatabase(work_ / name);
  }
  // `more`: fields of both layers. `second`: the database of the second one.
  void WriteNet(const std::string& more, const std::string& second = "labels") {
    std::string text;
    for (const std::string name : {"images", "labels"}) {
      text += StrCat("layer { name: '", name, "' type: 'Data' top: '", name, "_x' top: '", name,
                     "' data_param { source: '", work_ / (name == "images" ? name : second),
                     "' batch_size: 5 ", more, " } }\n");
    }
    work_.WriteNet(
        text +
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'images_x' top: 'ip'\n"
        "  inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'quiet' type: 'Silence' bottom: 'ip' bottom: 'labels_x' }\n"
        "layer { name: 'distance' type: 'EuclideanLoss' bottom: 'images' bottom: 'labels'\n"
        "  top: 'distance' loss_weight: 1 }\n");
  }
  static caffe::SolverParameter Solver(int iterations) {
    caffe::SolverParameter solver = Workspace::Solver(iterations);
    solver.set_display(1);
    solver.set_average_loss(1);
    return solver;
  }
  void ExpectPairs(const Outcome& outcome, size_t iterations) {
    EXPECT_EQ(outcome.Losses().size(), iterations);
    for (const auto& [iteration, loss] : outcome.Losses()) {
      EXPECT_EQ(loss, 0) << "iteration " << iteration;
    }
  }

  Workspace work_;
};

TEST_F(PairedData, StaysInPairsWithAnyNumberOfSolvers) {
  for (const int solvers : {1, 2, 4}) {
    ExpectPairs(RunNamed(work_, StrCat("run", solvers), Solver(200), WithSolvers(solvers)), 200);
  }
}

TEST_F(PairedData, StaysInPairsWhereSolversStepTogether) {
  caffe::SolverParameter solver = Solver(60);
  solver.mutable_strategy()->set_type("allreduce");
  ExpectPairs(RunNamed(work_, "run", solver, WithSolvers(3)), 60);
}

TEST_F(PairedData, StaysInPairsWhenShuffled) {
  caffe::SolverParameter solver = Solver(60);
  solver.mutable_sampler()->set_type("shuffle");
  ExpectPairs(RunNamed(work_, "sampled", solver, WithSolvers(2)), 60);
  WriteNet("shuffle: true");
  ExpectPairs(RunNamed(work_, "shuffled", Solver(60), WithSolvers(2)), 60);
}

TEST_F(PairedData, StaysInPairsThroughResumes) {
  ExpectPairs(RunNamed(work_, "a", Solver(50), WithSolvers(3)), 50);
  TrainOptions options = WithSolvers(2);
  options.snapshot = work_.Snapshot("a", 50) + ".solverstate";
  ExpectPairs(RunNamed(work_, "b", Solver(90), options), 40);
}

TEST_F(PairedData, IsRefusedByTheNamesOfBothLayersIfItCannotBeShuffled) {
  WriteDatabase("more", 40);
  WriteNet("shuffle: true", "more");
  const std::string error = ErrorOf([&] { RunNamed(work_, "run", Solver(1)); });
  EXPECT_CONTAINS(error, "net.prototxt:2: layer 'labels'");
  EXPECT_CONTAINS(error, "but layer 'images' has 37");
}

}  // namespace
}  // namespace millrace::test
