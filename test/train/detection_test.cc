// Tests of nets that detect objects: mean average precision in place of means of outputs.

#include "data/data_service.h"
#include "test/nn/box_rows.h"
#include "test/nn/net_support.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"
#include "train/evaluation/distributed_evaluation.h"
#include "train/evaluation/evaluator.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

constexpr const char* kTest = "include { phase: TEST }";

// Image 0 has an object of class 1, which is found, and one of class 2, which is not. A second
// detection of class 1 is wrong and has the better score.
std::string EvaluateText(const std::string& rule = "") {
  return RowText("t1", {0, 1, 0, 0, 0, 0.5, 0.5, 0}, rule) +
         RowText("t2", {0, 2, 0, 0, 0, 0.5, 0.5, 0}, rule) +
         RowText("d1", {0, 1, 0.5, 0, 0, 0.5, 0.5}, rule) +
         RowText("d2", {0, 1, 0.75, 0.5, 0.5, 1, 1}, rule) +
         StrCat("layer { name: 't' type: 'Concat' bottom: 't1' bottom: 't2' top: 't' ", rule,
                " concat_param { axis: 2 } }\n",
                "layer { name: 'd' type: 'Concat' bottom: 'd1' bottom: 'd2' top: 'd' ", rule,
                " concat_param { axis: 2 } }\n",
                "layer { name: 'judge' type: 'DetectionEvaluate' bottom: 'd' bottom: 't'",
                " top: 'detection_eval' ", rule,
                " detection_evaluate_param { num_classes: 3 } }\n");
}

TEST(Detection, IsScoredByTheMeanAveragePrecisionOverAllBatches) {
  TestNet net(EvaluateText(), InPhase(caffe::TEST));
  std::vector<double> batches;
  const auto observe = [&](int, const std::vector<OutputMean>& outputs) {
    batches.push_back(outputs.at(0).mean);
  };
  const Evaluation one = Evaluate(
      &*net, 1, [] { return false; }, observe);
  ASSERT_EQ(one.outputs.size(), 1u);
  EXPECT_EQ(one.outputs[0].name, "detection_eval");
  EXPECT_NEAR(one.outputs[0].mean, 0.25, 1e-6);  // 1/2 at recall 1; nothing of class 2
  EXPECT_EQ(batches.size(), 1u);
  // Two batches: all wrong detections come before all right ones. 1/3 and 2/4 at recalls 1/2, 1.
  const Evaluation two = Evaluate(&*net, 2, [] { return false; });
  EXPECT_NEAR(two.outputs[0].mean, (1 / 3.0 + 0.5) / 2 / 2, 1e-6);
  const Evaluation most = Evaluate(
      &*net, 2, [] { return false; }, {}, ApVersion::k11Point);
  EXPECT_NEAR(most.outputs[0].mean, 0.25, 1e-6);
  ASSERT_EQ(most.outputs[0].classes.size(), 2u);
  EXPECT_EQ(most.outputs[0].classes[0].label, 1);
  EXPECT_FALSE(most.outputs[0].classes[1].precision.has_value());
}

TEST(Detection, HasNoScoreWithoutBatches) {
  TestNet net(EvaluateText(), InPhase(caffe::TEST));
  const Evaluation none = Evaluate(&*net, 3, [] { return true; });
  ASSERT_EQ(none.outputs.size(), 1u);
  EXPECT_EQ(none.outputs[0].mean, 0);
}

TEST(Detection, ListsOfObjectsAreNoOutputsOfATest) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 'l' top: 'c' top: 'p' input_param {"
      "  shape { dim: 1 dim: 8 } shape { dim: 1 dim: 4 } shape { dim: 1 dim: 2 dim: 8 } } }"
      "layer { name: 'd' type: 'DetectionOutput' bottom: 'l' bottom: 'c' bottom: 'p' top: 'd'"
      "  detection_output_param { num_classes: 2 } }"
      "layer { name: 's' type: 'Reduction' bottom: 'c' top: 's' }",
      InPhase(caffe::TEST));
  const Evaluation result = Evaluate(&*net, 2, [] { return false; });
  ASSERT_EQ(result.outputs.size(), 1u);
  EXPECT_EQ(result.outputs[0].name, "s");
}

// An output with another number of values in each batch.
TEST(Detection, OutputsThatChangeTheirSizeHaveNoMean) {
  TestNet net(
      "layer { name: 'x' type: 'DummyData' top: 'x' top: 's' dummy_data_param {"
      "  shape { dim: 4 } shape { dim: 4 } } }"
      "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 's' top: 'y' }",
      InPhase(caffe::TEST));
  EXPECT_EQ(Evaluate(&*net, 2, [] { return false; }).outputs.size(), 0u);
  const auto observe = [&](int batch, const std::vector<OutputMean>&) {
    net->FindBlob("s")->data()[batch] = 1;
  };
  EXPECT_CONTAINS(ErrorOf([&] {
                    Evaluate(
                        &*net, 2, [] { return false; }, observe);
                  }),
                  "its outputs have 1 values, after 0 in the batch before");
}

class DetectionRuns : public testing::Test {
 protected:
  DetectionRuns() {
    SmallNet net = work_.Net();
    net.more_layers = EvaluateText(kTest);
    work_.WriteNet(net);
  }
  static caffe::SolverParameter Solver() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(4), 4);
    solver.set_eval_type("detection");
    return solver;
  }

  Workspace work_;
};

TEST_F(DetectionRuns, LogTheScoreAsSsdDoes) {
  caffe::SolverParameter solver = Solver();
  solver.set_ap_version("11point");
  const LogWatch log;
  const Outcome outcome = RunNamed(work_, "plain", solver);
  EXPECT_NEAR(outcome.FinalOutput("detection_eval"), 0.25, 1e-6);
  EXPECT_GT(log.Count("    Test net output #1: detection_eval = 0.25"), 0);
  EXPECT_EQ(log.Count("class1: 0.5"), 0);
  EXPECT_GT(log.Count("Missing true_pos for label: 2"), 0);
  EXPECT_NEAR(outcome.rows.back().test().outputs().at("detection_eval"), 0.25, 1e-6);
  solver.set_show_per_class_result(true);
  RunNamed(work_, "classes", solver);
  EXPECT_GT(log.Count("class1: 0.5"), 0);
}

// Locations and confidences of four cells, learned for one object.
TEST_F(DetectionRuns, LearnToFindAnObject) {
  const std::string inner = " inner_product_param { num_output: ",
                    filler = " weight_filler { type: 'gaussian' std: 0.01 } } }\n";
  work_.WriteNet(
      RowText("t", {0, 2, 0, 0.0625, 0.125, 0.5, 0.625, 0}) +
      "layer { name: 'x' type: 'DummyData' top: 'x' top: 'map' dummy_data_param {"
      "  shape { dim: 1 dim: 4 } shape { dim: 1 dim: 1 dim: 2 dim: 2 }"
      "  data_filler { value: 0.5 } } }\n"
      "layer { name: 'loc' type: 'InnerProduct' bottom: 'x' top: 'loc'" +
      inner + "16" + filler + "layer { name: 'conf' type: 'InnerProduct' bottom: 'x' top: 'conf'" +
      inner + "12" + filler +
      "layer { name: 'prior' type: 'PriorBox' bottom: 'map' top: 'prior'"
      "  prior_box_param { min_size: 4 img_size: 8 variance: 0.1 } }\n"
      "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc' bottom: 'conf' bottom: 'prior'"
      "  bottom: 't' top: 'loss' include { phase: TRAIN }"
      "  propagate_down: true propagate_down: true propagate_down: false propagate_down: false"
      "  multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE } }\n"
      "layer { name: 'rows' type: 'Reshape' bottom: 'conf' top: 'rows' include { phase: TEST }"
      "  reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }\n"
      "layer { name: 'softmax' type: 'Softmax' bottom: 'rows' top: 'shares' include { phase: TEST }"
      "  softmax_param { axis: 2 } }\n"
      "layer { name: 'flat' type: 'Flatten' bottom: 'shares' top: 'flat' include { phase: TEST } "
      "}\n"
      "layer { name: 'found' type: 'DetectionOutput' bottom: 'loc' bottom: 'flat' bottom: 'prior'"
      "  top: 'found' include { phase: TEST } detection_output_param { num_classes: 3"
      "  code_type: CENTER_SIZE confidence_threshold: 0.5 } }\n"
      "layer { name: 'judge' type: 'DetectionEvaluate' bottom: 'found' bottom: 't'"
      "  top: 'detection_eval' include { phase: TEST } detection_evaluate_param { num_classes: 3"
      "  overlap_threshold: 0.9 } }\n");
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(200), 200);
  solver.set_base_lr(0.05f);
  solver.set_weight_decay(0);
  solver.set_eval_type("detection");
  const Outcome outcome = RunNamed(work_, "learns", solver);
  // One of two classes has an object.
  EXPECT_NEAR(outcome.FinalOutput("detection_eval"), 0.5, 1e-6);
  EXPECT_LT(outcome.result.loss, 0.1);
}

TEST_F(DetectionRuns, RefuseANetThatDetectsNothing) {
  SmallNet net = work_.Net();
  work_.WriteNet(net);
  EXPECT_CONTAINS(ErrorOf([&] { RunNamed(work_, "none", Solver()); }),
                  "eval_type: \"detection\" given, but test net #0 has no output");
}

TEST_F(DetectionRuns, AreTestedByOneNode) {
  const SolverConfig config = LoadSolverConfig(work_.Write("cluster", Solver()));
  DataService data(DataOptions{.seed = 7});
  BuiltNetOptions options;
  options.state = config.train.state;
  options.data = &data;
  BuiltNet net(config.train.param, config.train.source, options);
  const auto weights = WeightBuffer::CreatePrivate(net.layout());
  net.BindWeights(weights->data());
  net.FillWeights();
  DataService test_data(DataOptions{.seed = 7});
  const Tester tester(config, net.layout(), weights->data(), &test_data, nullptr);
  EXPECT_TRUE(tester.has_detections(0));
  EXPECT_FALSE(DistributedEvaluation::Fits(tester));
}

}  // namespace
}  // namespace millrace::test
