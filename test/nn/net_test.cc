// Layer selection, error checks, and the properties that a net reports.
#include "nn/net.h"

#include <limits>

#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const char kNetInput[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 } } }\n";

// A ReLU on `data` with these include and exclude rules.
std::string Ruled(const std::string& name, const std::string& rules) {
  return "layer { name: '" + name + "' type: 'ReLU' bottom: 'data' top: '" + name + "' " + rules +
         " }\n";
}

bool Has(const TestNet& net, const std::string& layer) {
  for (const std::string& name : net.LayerNames()) {
    if (name == layer) return true;
  }
  return false;
}

BuiltNetOptions State(caffe::Phase phase, int level = 0,
                      const std::vector<std::string>& stages = {}) {
  BuiltNetOptions options = InPhase(phase);
  options.state.set_level(level);
  for (const std::string& stage : stages) options.state.add_stage(stage);
  return options;
}

TEST(NetRules, IncludeByPhaseKeepsALayerInThatPhaseOnly) {
  const std::string text = kNetInput + Ruled("r", "include { phase: TEST }") + Ruled("both", "");
  EXPECT_FALSE(Has(TestNet(text, State(caffe::TRAIN)), "r"));
  EXPECT_TRUE(Has(TestNet(text, State(caffe::TEST)), "r"));
  EXPECT_TRUE(Has(TestNet(text, State(caffe::TRAIN)), "both"));
}

TEST(NetRules, ExcludeDropsALayerThatMeetsAnyOfItsRules) {
  const std::string text =
      kNetInput + Ruled("r", "exclude { phase: TEST } exclude { stage: 'deploy' }");
  EXPECT_TRUE(Has(TestNet(text, State(caffe::TRAIN)), "r"));
  EXPECT_FALSE(Has(TestNet(text, State(caffe::TEST)), "r"));
  EXPECT_FALSE(Has(TestNet(text, State(caffe::TRAIN, 0, {"deploy"})), "r"));
}

TEST(NetRules, LevelsBoundBothEnds) {
  const std::string text = kNetInput + Ruled("r", "include { min_level: 2 max_level: 4 }");
  for (int level : {0, 1, 5}) EXPECT_FALSE(Has(TestNet(text, State(caffe::TEST, level)), "r"));
  for (int level : {2, 3, 4}) EXPECT_TRUE(Has(TestNet(text, State(caffe::TEST, level)), "r"));
}

TEST(NetRules, AllStagesOfARuleMustBeThereAndNoneOfItsNotStages) {
  const std::string text =
      kNetInput + Ruled("r", "include { stage: 'a' stage: 'b' not_stage: 'c' }");
  EXPECT_FALSE(Has(TestNet(text, State(caffe::TEST, 0, {"a"})), "r"));
  EXPECT_TRUE(Has(TestNet(text, State(caffe::TEST, 0, {"b", "a", "d"})), "r"));
  EXPECT_FALSE(Has(TestNet(text, State(caffe::TEST, 0, {"a", "b", "c"})), "r"));
}

TEST(NetRules, IncludeAndExcludeTogetherAreRefused) {
  const std::string text =
      kNetInput + Ruled("r", "include { phase: TEST } exclude { phase: TRAIN }");
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(text); }), "net.prototxt:2: layer 'r'");
}

TEST(NetRules, ANetOfWhichNothingIsLeftIsRefused) {
  const std::string text =
      "layer { name: 'd' type: 'Input' top: 'd' include { phase: TEST } "
      "input_param { shape { dim: 1 } } }";
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(text); }), "no layer is left for phase TRAIN");
}

TEST(NetInputs, LegacyInputAndInputDimMakeAnInputLayer) {
  TestNet net(
      "input: 'a' input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5\n"
      "input: 'b' input_dim: 1 input_dim: 1 input_dim: 1 input_dim: 6\n" +
      std::string("layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }"));
  EXPECT_EQ(net->FindBlob("a")->shape(), Shape({2, 3, 4, 5}));
  EXPECT_EQ(net->FindBlob("b")->shape(), Shape({1, 1, 1, 6}));
  EXPECT_EQ(net->batch_size(), 2);
}

TEST(NetInputs, InputShapeDoesTheSame) {
  TestNet net("input: 'a' input_shape { dim: 2 dim: 7 }");
  EXPECT_EQ(net->FindBlob("a")->shape(), Shape({2, 7}));
}

TEST(NetInputs, MissingDimensionsAreCounted) {
  EXPECT_EQ(ErrorOf([] { TestNet net("input: 'a'\ninput_dim: 2 input_dim: 3"); }),
            "net.prototxt:2: input_dim: 2 given, expected 4 for 1 input blobs");
}

TEST(NetSplits, ABlobForSeveralLayersIsSplitUnderCaffesNames) {
  TestNet net(kNetInput + Ruled("x", "") + Ruled("y", ""));
  const BuiltNet::Node& split = net.NodeOf("data_data_0_split");
  EXPECT_EQ(split.layer->type(), "Split");
  EXPECT_EQ(split.top_names,
            (std::vector<std::string>{"data_data_0_split_0", "data_data_0_split_1"}));
  EXPECT_EQ(net.NodeOf("x").bottom_names[0], "data_data_0_split_0");
  EXPECT_EQ(net.NodeOf("y").bottom_names[0], "data_data_0_split_1");
  EXPECT_EQ(net.LayerNames(), (std::vector<std::string>{"data", "data_data_0_split", "x", "y"}));
}

TEST(NetSplits, TheVersionAfterAnInPlaceLayerIsTheOneThatIsSplit) {
  TestNet net(std::string(kNetInput) +
              "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }\n" + Ruled("x", "") +
              Ruled("y", ""));
  EXPECT_EQ(net.LayerNames(), (std::vector<std::string>{"data", "r", "data_r_0_split", "x", "y"}));
}

TEST(NetInPlace, ALayerMayOverwriteItsBottom) {
  TestNet net(std::string(kNetInput) +
              "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }");
  Blob* data = net->FindBlob("data");
  const std::vector<float> in = {-1, 2, -3, 4, -5, 6};
  std::copy(in.begin(), in.end(), data->data());
  net->Forward();
  EXPECT_EQ(Values(*data), (std::vector<float>{0, 2, 0, 4, 0, 6}));
  ASSERT_EQ(net->outputs().size(), 1u);
  EXPECT_EQ(net->outputs()[0].name, "data");
}

TEST(NetInPlace, LayersThatReadTheirBottomAgainAreRefused) {
  for (const std::string type : {"Pooling", "Concat", "InnerProduct"}) {
    const std::string field = type == "Pooling"        ? "pooling_param { kernel_size: 1 }"
                              : type == "InnerProduct" ? "inner_product_param { num_output: 6 }"
                                                       : "";
    const std::string error = ErrorOf([&] {
      TestNet net(std::string(kNetInput) + "layer { name: 'l' type: '" + type +
                  "' bottom: 'data' top: 'data' " + field + " }");
    });
    EXPECT_CONTAINS(error, "layer 'l': top[0]: a layer of type " + type + " cannot work in place");
  }
}

TEST(NetOutputs, AreTheBlobsThatNoLayerConsumesByName) {
  TestNet net(kNetInput + Ruled("y", "") + Ruled("x", "") +
              "layer { name: 'z' type: 'ReLU' bottom: 'x' top: 'a' }");
  ASSERT_EQ(net->outputs().size(), 2u);
  EXPECT_EQ(net->outputs()[0].name, "a");
  EXPECT_EQ(net->outputs()[1].name, "y");
}

TEST(NetMemory, IsKnownBeforeTheFirstPass) {
  // 2 x 3 inputs, 2 x 4 values of ip (overwritten by the in-place ReLU), and the gradients.
  TestNet net(std::string(kNetInput) +
              "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
              "inner_product_param { num_output: 4 } }\n"
              "layer { name: 'r' type: 'ReLU' bottom: 'ip' top: 'ip' loss_weight: 1 }");
  const size_t before = net->activation_bytes();
  EXPECT_GE(before, (6 + 8 + 8) * sizeof(float));
  net.Pass();
  EXPECT_EQ(net->activation_bytes(), before);
}

// Invalid nets: each error gives the place in the file, the layer, and the expectation.
struct Mistake {
  const char* name;
  const char* layer;  // the second line of the file
  const char* complaint;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class NetMistake : public testing::TestWithParam<Mistake> {};

TEST_P(NetMistake, NamesThePlaceAndWhatWasExpected) {
  const std::string text = std::string(kNetInput) + GetParam().layer;
  const std::string error = ErrorOf([&] { TestNet net(text); });
  EXPECT_EQ(error.find("net.prototxt:2"), 0u) << error;
  EXPECT_CONTAINS(error, GetParam().complaint);
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(
    All, NetMistake,
    testing::Values(
        Mistake{"UnknownBottom", "layer { name: 'l' type: 'ReLU' bottom: 'dada' top: 'l' }",
                "layer 'l': bottom[0]: there is no blob 'dada'"},
        Mistake{"UnknownType", "layer { name: 'l' type: 'Relu' bottom: 'data' top: 'l' }",
                "layer 'l': type: there is no layer type 'Relu'"},
        Mistake{"UnknownField", "layer { name: 'l' tipe: 'ReLU' bottom: 'data' top: 'l' }", "tipe"},
        Mistake{"NoType", "layer { name: 'l' bottom: 'data' top: 'l' }", "type: missing"},
        Mistake{"TooManyBottoms",
                "layer { name: 'l' type: 'ReLU' bottom: 'data' bottom: 'data' top: 'l' }",
                "bottom: 2 given, expected 1"},
        Mistake{"NoTop", "layer { name: 'l' type: 'ReLU' bottom: 'data' }",
                "top: 0 given, expected 1"},
        Mistake{"TopTwice",
                "layer { name: 'l' type: 'Input' top: 'data' input_param { shape { dim: 1 } } }",
                "top[0]: blob 'data' is made by an earlier layer"},
        Mistake{"LossWeights",
                "layer { name: 'l' type: 'ReLU' bottom: 'data' top: 'l' loss_weight: 1 "
                "loss_weight: 1 }",
                "loss_weight: 2 given, expected 1"},
        Mistake{"Blobs",
                "layer { name: 'l' type: 'InnerProduct' bottom: 'data' top: 'l' blobs { } "
                "inner_product_param { num_output: 2 } }",
                "layer 'l': blobs: 1 given, expected none or 2"},
        Mistake{"PythonLayer", "layer { name: 'l' type: 'Python' bottom: 'data' top: 'l' }",
                "layer 'l': type: a layer in Python, expected the Python module millrace"},
        Mistake{"PropagateDowns",
                "layer { name: 'l' type: 'ReLU' bottom: 'data' top: 'l' propagate_down: true "
                "propagate_down: true }",
                "propagate_down: 2 given, expected 1"},
        Mistake{"TooManyParams",
                "layer { name: 'l' type: 'ReLU' bottom: 'data' top: 'l' param { lr_mult: 1 } }",
                "param[0]: 1 given, but the layer has 0 learnable blobs"},
        Mistake{"ShapesThatDoNotFit",
                "layer { name: 'l' type: 'Pooling' bottom: 'data' top: 'l' "
                "pooling_param { kernel_size: 9 } }",
                "layer 'l'"},
        Mistake{"TwoFormats", "layers { name: 'l' }", "the net has `layers`"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(NetFinite, SaysWhichLayerIsNotFinite) {
  TestNet net(std::string(kNetInput) +
              "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
              "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }");
  FillRandom(net->FindBlob("data"), 1);
  net->Forward();
  EXPECT_EQ(net->FindNonFinite(), "");
  float* bias = net.weights() + net->layout().entries()[1].offset;
  bias[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(net->FindNonFinite(), "layer 'ip' (InnerProduct): bias are not finite");
  bias[1] = 0;
  net->FindBlob("ip")->data()[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(net->FindNonFinite(), "layer 'ip' (InnerProduct): output 'ip' is not finite");
  net->FindBlob("data")->data()[3] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(net->FindNonFinite(), "layer 'data' (Input): output 'data' is not finite");
}

}  // namespace
}  // namespace millrace::test
