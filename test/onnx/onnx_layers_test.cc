// Layers as ONNX operators: what another program computes with them is what the layers compute.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "model/onnx/export.h"
#include "test/onnx/onnx_models.h"

namespace millrace::test {
namespace {

struct Case {
  std::string name;
  std::string inputs;  // "x 2 3 8 9; y 2 3 1 1"
  std::string layers;  // read x, y; write any blobs
  // OpenCV (Debian 12's 4.6) has no operator or setting of this kind, or computes something else.
  bool not_in_opencv = false;
  int indices_below = 0;  // the input "i" has whole numbers
};

std::string InputLayers(const std::string& inputs) {
  std::string text;
  std::istringstream parts(inputs);
  for (std::string part; std::getline(parts, part, ';');) {
    std::istringstream words(part);
    std::string name, dims;
    words >> name;
    for (int64_t dim; words >> dim;) dims += " dim: " + std::to_string(dim);
    text += "layer { name: '" + name + "' type: 'Input' top: '" + name + "' input_param { shape {" +
            dims + " } } }\n";
  }
  return text;
}

// "type: 'ReLU'" of a layer from x to y.
std::string Layer(const std::string& fields) {
  return "layer { name: 'l' bottom: 'x' top: 'y' " + fields + " }";
}

constexpr char kImages[] = "x 2 4 7 9";

std::vector<Case> NeuronCases() {
  const std::set<std::string> kNotInOpencv = {"ReLU6", "Clip", "Constant", "Threshold"};
  std::vector<Case> cases;
  const std::pair<const char*, const char*> kLayers[] = {
      {"ReLU", "type: 'ReLU'"},
      {"LeakyReLU", "type: 'ReLU' relu_param { negative_slope: 0.1 }"},
      {"ReLU6", "type: 'ReLU6'"},
      {"PReLU", "type: 'PReLU'"},
      {"SharedPReLU", "type: 'PReLU' prelu_param { channel_shared: true }"},
      {"ELU", "type: 'ELU' elu_param { alpha: 0.7 }"},
      {"Sigmoid", "type: 'Sigmoid'"},
      {"TanH", "type: 'TanH'"},
      {"AbsVal", "type: 'AbsVal'"},
      {"BNLL", "type: 'BNLL'"},
      {"Exp", "type: 'Exp'"},
      {"ExpOfBase", "type: 'Exp' exp_param { base: 2 scale: 0.5 shift: 1.5 }"},
      {"Log", "type: 'Log' log_param { shift: 2.5 }"},
      {"LogOfBase", "type: 'Log' log_param { base: 10 scale: 0.5 shift: 3 }"},
      {"Power", "type: 'Power' power_param { power: 2.5 scale: 0.5 shift: 2 }"},
      {"Square", "type: 'Power' power_param { power: 2 scale: 3 shift: -1 }"},
      {"Linear", "type: 'Power' power_param { scale: 3 shift: -1 }"},
      {"Same", "type: 'Power'"},
      {"Constant", "type: 'Power' power_param { power: 3 scale: 0 shift: 2 }"},
      {"Swish", "type: 'Swish' swish_param { beta: 1.5 }"},
      {"Clip", "type: 'Clip' clip_param { min: -0.5 max: 0.25 }"},
      {"Threshold", "type: 'Threshold' threshold_param { threshold: 0.2 }"}};
  for (const auto& [name, fields] : kLayers) {
    cases.push_back({name, kImages, Layer(fields), kNotInOpencv.count(name) > 0});
  }
  return cases;
}

std::vector<Case> ConvolutionCases() {
  const auto convolution = [](const char* name, const char* fields) {
    return Case{name, kImages,
                Layer(std::string("type: 'Convolution' convolution_param { ") + fields + " }")};
  };
  const auto deconvolution = [](const char* name, const char* fields) {
    return Case{name, kImages,
                Layer(std::string("type: 'Deconvolution' convolution_param { ") + fields + " }")};
  };
  std::vector<Case> cases = {
      convolution("Plain", "num_output: 6 kernel_size: 3"),
      convolution("StridePad", "num_output: 6 kernel_size: 3 stride: 2 pad: 1 bias_term: false"),
      convolution("Pairs",
                  "num_output: 6 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 2 "
                  "pad_w: 0"),
      convolution("Dilated", "num_output: 6 kernel_size: 3 dilation: 2 pad: 2"),
      convolution("Groups", "num_output: 6 kernel_size: 3 group: 2"),
      convolution("Depthwise", "num_output: 4 kernel_size: 3 group: 4 pad: 1"),
      deconvolution("Up", "num_output: 3 kernel_size: 4 stride: 2 pad: 1"),
      deconvolution("UpGroups", "num_output: 4 kernel_size: 3 stride: 2 group: 2 bias_term: false"),
      {"UpDilated", kImages,
       Layer(
           "type: 'Deconvolution' convolution_param { num_output: 3 kernel_size: 3 dilation: 2 }"),
       true},
      {"OneAxis", "x 2 3 11",
       Layer("type: 'Convolution' convolution_param { num_output: 5 kernel_size: 3 stride: 2 }"),
       true},
      {"ThreeAxes", "x 1 2 5 6 7",
       Layer("type: 'Convolution' convolution_param { num_output: 3 kernel_size: 3 pad: 1 }")},
      {"TwoBottoms", "x 2 3 6 6; z 2 3 6 6",
       "layer { name: 'l' type: 'Convolution' bottom: 'x' bottom: 'z' top: 'y' top: 'w'\n"
       "  convolution_param { num_output: 2 kernel_size: 3 } }"},
      {"InnerProduct", kImages,
       Layer("type: 'InnerProduct' inner_product_param { num_output: 5 }")},
      {"InnerProductTransposed", kImages,
       Layer("type: 'InnerProduct' inner_product_param { num_output: 5 transpose: true\n"
             "  bias_term: false }"),
       true},
      {"InnerProductOfUnitRows", kImages,
       Layer("type: 'InnerProduct' inner_product_param { num_output: 5 normalize: true }")},
      {"InnerProductOfAxis", kImages,
       Layer("type: 'InnerProduct' inner_product_param { num_output: 5 axis: -1 }")},
      {"InnerProductOfRows", "x 3 8",
       Layer("type: 'InnerProduct' inner_product_param { num_output: 5 }")},
      {"SharedWeights", "x 3 8; z 3 8",
       "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'y' param { name: 'w' }\n"
       "  inner_product_param { num_output: 5 } }\n"
       "layer { name: 'b' type: 'InnerProduct' bottom: 'z' top: 'v' param { name: 'w' }\n"
       "  inner_product_param { num_output: 5 } }"}};
  Case embed = {"Embed", "i 2 5",
                "layer { name: 'l' type: 'Embed' bottom: 'i' top: 'y'\n"
                "  embed_param { input_dim: 7 num_output: 3 } }",
                true, 7};
  cases.push_back(embed);
  return cases;
}

std::vector<Case> PoolingCases() {
  std::vector<Case> cases;
  const char* const kWindows[] = {"kernel_size: 2 stride: 2",
                                  "kernel_size: 3 stride: 2",
                                  "kernel_size: 3 stride: 2 pad: 1",
                                  "kernel_size: 3 stride: 1 pad: 1",
                                  "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_w: 1",
                                  "kernel_size: 4 stride: 3 pad: 1",
                                  "kernel_size: 3 stride: 2 round_mode: FLOOR",
                                  "kernel_size: 5 stride: 4 pad: 2",
                                  "global_pooling: true"};
  for (const char* pool : {"MAX", "AVE"}) {
    for (size_t i = 0; i < std::size(kWindows); ++i) {
      for (const char* size : {"7 9", "8 6", "6 10"}) {
        std::string name = std::string(pool) + std::to_string(i) + "of" + size;
        std::replace(name.begin(), name.end(), ' ', 'x');
        cases.push_back({name, std::string("x 2 3 ") + size,
                         Layer(std::string("type: 'Pooling' pooling_param { pool: ") + pool + " " +
                               kWindows[i] + " }")});
      }
    }
  }
  cases.push_back({"Places", kImages,
                   "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' top: 'p'\n"
                   "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }",
                   true});
  return cases;
}

std::vector<Case> NormalisationCases() {
  return {{"LrnAcross", "x 2 8 5 6",
           Layer("type: 'LRN' lrn_param { local_size: 5 alpha: 0.3 beta: 0.75 k: 2 }")},
          {"LrnWithin", kImages,
           Layer("type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }")},
          {"LrnWithinWithK", kImages,
           Layer("type: 'LRN' lrn_param { local_size: 3 k: 4 norm_region: WITHIN_CHANNEL }")},
          {"DropoutThatScalesTests", kImages,
           Layer("type: 'Dropout' dropout_param { dropout_ratio: 0.3 scale_train: false }")},
          {"BatchNorm", kImages, Layer("type: 'BatchNorm' batch_norm_param { eps: 0.01 }")},
          {"BatchNormOfRows", "x 6 5", Layer("type: 'BatchNorm'")},
          {"BatchNormOfOneAxis", "x 6", Layer("type: 'BatchNorm'")},
          {"BatchNormOfBatch", kImages,
           Layer("type: 'BatchNorm' batch_norm_param { use_global_stats: false }")},
          {"Mvn", kImages, Layer("type: 'MVN' mvn_param { eps: 0.1 }"), true},
          {"MvnAcross", kImages, Layer("type: 'MVN' mvn_param { across_channels: true }"), true},
          {"MvnMean", kImages, Layer("type: 'MVN' mvn_param { normalize_variance: false }"), true},
          {"Softmax", "x 3 10", Layer("type: 'Softmax'")},
          {"SoftmaxOfPlanes", kImages, Layer("type: 'Softmax'")},
          {"SoftmaxOfLast", kImages, Layer("type: 'Softmax' softmax_param { axis: -1 }")}};
}

std::vector<Case> CombinationCases() {
  const auto two = [](const char* name, const char* fields) {
    return Case{name, "x 2 4 5 6; z 2 4 5 6",
                std::string("layer { name: 'l' bottom: 'x' bottom: 'z' top: 'y' ") + fields + " }"};
  };
  return {
      {"Scale", kImages, Layer("type: 'Scale' scale_param { bias_term: true }")},
      {"ScaleOfPlanes", kImages, Layer("type: 'Scale' scale_param { axis: 2 num_axes: -1 }"), true},
      {"ScaleOfAll", kImages, Layer("type: 'Scale' scale_param { num_axes: 0 bias_term: true }")},
      {"ScaleOfLast", kImages, Layer("type: 'Scale' scale_param { axis: -1 }"), true},
      {"ScaleByBottom", "x 2 4 5 6; z 2 4",
       "layer { name: 'l' type: 'Scale' bottom: 'x' bottom: 'z' top: 'y'\n"
       "  scale_param { axis: 0 } }"},
      {"Bias", kImages, Layer("type: 'Bias'")},
      {"BiasByBottom", "x 2 4 5 6; z 4",
       "layer { name: 'l' type: 'Bias' bottom: 'x' bottom: 'z' top: 'y' }"},
      two("Sum", "type: 'Eltwise'"),
      two("WeightedSum", "type: 'Eltwise' eltwise_param { coeff: 1 coeff: -0.5 }"),
      two("Product", "type: 'Eltwise' eltwise_param { operation: PROD }"),
      two("Maximum", "type: 'Eltwise' eltwise_param { operation: MAX }"),
      two("MaximumWithCoefficients",
          "type: 'Eltwise' eltwise_param { operation: MAX coeff: 2 coeff: -3 }"),
      {"SumOfThree", "x 2 3; z 2 3; w 2 3",
       "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'z' bottom: 'w' top: 'y' }"},
      two("Concat", "type: 'Concat'"),
      two("ConcatOfLast", "type: 'Concat' concat_param { axis: -1 }"),
      {"Slice", kImages,
       "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' top: 'c'\n"
       "  slice_param { slice_point: 1 slice_point: 3 } }"},
      {"SliceInHalves", kImages, "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' }"},
      {"Axpy", "a 2 4; x 2 4 5 6; z 2 4 5 6",
       "layer { name: 'l' type: 'Axpy' bottom: 'a' bottom: 'x' bottom: 'z' top: 'y' }"},
      {"BatchReindex", "x 3 4; i 5",
       "layer { name: 'l' type: 'BatchReindex' bottom: 'x' bottom: 'i' top: 'y' }", true, 3},
      {"Parameter", "x 2 3",
       "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 2 dim: 3 } } "
       "}\n"
       "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'p' top: 'y' }"}};
}

std::vector<Case> ShapeCases() {
  return {
      {"Flatten", kImages, Layer("type: 'Flatten'")},
      {"FlattenSome", kImages, Layer("type: 'Flatten' flatten_param { axis: 2 }")},
      {"Reshape", kImages,
       Layer("type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 dim: 3 } }")},
      {"Permute", kImages, Layer("type: 'Permute' permute_param { order: 0 order: 2 order: 3 }")},
      {"ShuffleChannel", "x 2 6 3 4",
       Layer("type: 'ShuffleChannel' shuffle_channel_param { group: 3 }")},
      {"Crop", "x 2 4 7 9; z 2 4 5 6",
       "layer { name: 'l' type: 'Crop' bottom: 'x' bottom: 'z' top: 'y'\n"
       "  crop_param { offset: 1 offset: 2 } }"},
      {"Tile", kImages, Layer("type: 'Tile' tile_param { tiles: 3 }"), true},
      {"Interp", kImages, Layer("type: 'Interp' interp_param { height: 13 width: 20 }")},
      {"InterpCut", kImages, Layer("type: 'Interp' interp_param { zoom_factor: 2 pad_beg: -1 }")},
      {"Upsample", kImages, Layer("type: 'Upsample' upsample_param { scale_h: 2 scale_w: 3 }")},
      {"Unpool", "x 2 4 6 8",
       "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'v' top: 'm'\n"
       "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n"
       "layer { name: 'l' type: 'Upsample' bottom: 'v' bottom: 'm' top: 'y' }",
       true}};
}

std::vector<Case> ReductionCases() {
  std::vector<Case> cases;
  for (const char* operation : {"SUM", "ASUM", "SUMSQ", "MEAN"}) {
    cases.push_back({operation, kImages,
                     Layer(std::string("type: 'Reduction' reduction_param { axis: 1 coeff: 0.5 "
                                       "operation: ") +
                           operation + " }"),
                     std::string(operation) == "SUM"});
  }
  cases.push_back({"ReductionOfLast", kImages,
                   Layer("type: 'Reduction' reduction_param { axis: -1 operation: MEAN }")});
  cases.push_back({"ReductionOfAll", "x 3 4", Layer("type: 'Reduction'"), true});
  cases.push_back({"ArgMaxOfAxis", kImages, Layer("type: 'ArgMax' argmax_param { axis: 1 }")});
  cases.push_back(
      {"MaxOfAxis", kImages, Layer("type: 'ArgMax' argmax_param { axis: 1 out_max_val: true }")});
  cases.push_back({"ArgMax", kImages, Layer("type: 'ArgMax'")});
  cases.push_back(
      {"ArgMaxAndValue", kImages, Layer("type: 'ArgMax' argmax_param { out_max_val: true }")});
  cases.push_back({"TopThree", kImages,
                   Layer("type: 'ArgMax' argmax_param { top_k: 3 out_max_val: true }"), true});
  cases.push_back(
      {"TopTwoOfAxis", kImages, Layer("type: 'ArgMax' argmax_param { top_k: 2 axis: -1 }"), true});
  // Equal values: the larger index first.
  cases.push_back({"ArgMaxOfEqual", "i 4 6",
                   "layer { name: 'l' type: 'ArgMax' bottom: 'i' top: 'y' }", false, 2});
  cases.push_back({"TopThreeOfEqual", "i 4 6",
                   "layer { name: 'l' type: 'ArgMax' bottom: 'i' top: 'y'\n"
                   "  argmax_param { top_k: 3 } }",
                   true, 2});
  return cases;
}

void RunCases(const std::vector<Case>& cases) {
  OnnxModels models;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    RandomNet net("name: 'n'\n" + InputLayers(each.inputs) + each.layers);
    if (each.indices_below > 0) net.SetIndices("i", each.indices_below);
    models.Add(each.name, &net.net());
  }
  std::string reason, runtime;
  std::map<std::string, OnnxModels::Result> results = models.Run(&reason, &runtime);
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const Case& each : cases) {
    const OnnxModels::Result& result = results[each.name];
    if (each.not_in_opencv && runtime.starts_with("OpenCV") && !result.is_invalid) {
      std::printf("%s: not compared, %s lacks it\n", each.name.c_str(), runtime.c_str());
      continue;
    }
    EXPECT_EQ(result.reason, "") << each.name;
    EXPECT_GE(result.error, 0) << each.name;
    EXPECT_LE(result.error, 1e-4) << each.name;
  }
}

TEST(OnnxLayers, NeuronsComputeTheSame) { RunCases(NeuronCases()); }
TEST(OnnxLayers, ConvolutionsAndProductsComputeTheSame) { RunCases(ConvolutionCases()); }
TEST(OnnxLayers, PoolingRoundsAndDividesAsCaffe) { RunCases(PoolingCases()); }
TEST(OnnxLayers, NormalisationsComputeTheSame) { RunCases(NormalisationCases()); }
TEST(OnnxLayers, CombinationsComputeTheSame) { RunCases(CombinationCases()); }
TEST(OnnxLayers, ShapesAreThoseOfTheLayers) { RunCases(ShapeCases()); }
TEST(OnnxLayers, ReductionsComputeTheSame) { RunCases(ReductionCases()); }

// ---- The graph ----

std::set<std::string> OperatorsOf(const onnx::ModelProto& model) {
  std::set<std::string> operators;
  for (const onnx::NodeProto& node : model.graph().node()) operators.insert(node.op_type());
  return operators;
}

TEST(OnnxGraph, LeavesOutLossesLabelsDropoutAndSplits) {
  RandomNet net(R"(
    layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
            dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 } } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
            inner_product_param { num_output: 4 } }
    layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }
    layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'dropped' }
    layer { name: 'ip2' type: 'InnerProduct' bottom: 'dropped' top: 'score'
            inner_product_param { num_output: 5 } }
    layer { name: 'flat' type: 'Flatten' bottom: 'label' top: 'flat' }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'flat' top: 'loss' }
    layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' bottom: 'flat' top: 'accuracy' }
    layer { name: 'seg' type: 'SegAccuracy' bottom: 'score' bottom: 'flat' top: 'seg' })");
  const onnx::ModelProto model = onnx_export::ModelOf(net.net());
  EXPECT_EQ(OperatorsOf(model), (std::set<std::string>{"Gemm", "Relu"}));
  ASSERT_EQ(model.graph().input_size(), 1);
  EXPECT_EQ(model.graph().input(0).name(), "data");
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_EQ(model.graph().output(0).name(), "score");
}

TEST(OnnxGraph, InputsAndOutputsHaveTheNamesOfTheirBlobs) {
  RandomNet net(InputLayers("x 2 3") + R"(
    layer { name: 'first' type: 'ReLU' bottom: 'x' top: 'x' }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
            inner_product_param { num_output: 4 } }
    layer { name: 'second' type: 'ReLU' bottom: 'y' top: 'y' }
    layer { name: 'drop' type: 'Dropout' bottom: 'y' top: 'z' })");
  const onnx::GraphProto graph = onnx_export::ModelOf(net.net()).graph();
  EXPECT_EQ(graph.input(0).name(), "x");
  EXPECT_EQ(graph.output(0).name(), "z");
  ASSERT_EQ(graph.node_size(), 3);
  EXPECT_EQ(graph.node(0).output(0), "x_first");
  EXPECT_EQ(graph.node(1).input(0), "x_first");
  EXPECT_EQ(graph.node(2).output(0), "z");
}

TEST(OnnxGraph, WantsOnlyTheShapeOfABlobToCropTo) {
  RandomNet net(InputLayers("x 2 3 8 8; z 2 3 4 4") +
                "layer { name: 'l' type: 'Crop' bottom: 'x' bottom: 'z' top: 'y' }");
  const onnx::GraphProto graph = onnx_export::ModelOf(net.net()).graph();
  ASSERT_EQ(graph.input_size(), 1);
  EXPECT_EQ(graph.input(0).name(), "x");
}

TEST(OnnxGraph, WeightsThatALayerNormalizesHaveTheLengthOne) {
  RandomNet net(InputLayers("x 2 3") + R"(
    layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
            inner_product_param { num_output: 4 bias_term: false normalize: true } })");
  const onnx::GraphProto graph = onnx_export::ModelOf(net.net()).graph();
  ASSERT_EQ(graph.initializer_size(), 1);
  const onnx::TensorProto& weights = graph.initializer(0);
  ASSERT_EQ(weights.raw_data().size(), 12 * sizeof(float));
  float values[12];
  std::memcpy(values, weights.raw_data().data(), sizeof(values));
  for (int row = 0; row < 4; ++row) {
    const float* const w = values + row * 3;
    EXPECT_NEAR(w[0] * w[0] + w[1] * w[1] + w[2] * w[2], 1, 1e-5);
  }
}

TEST(OnnxGraph, LayersThatShareWeightsShareAConstant) {
  RandomNet net(InputLayers("x 2 3; z 2 3") + R"(
    layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'y' param { name: 'w' }
            inner_product_param { num_output: 3 bias_term: false } }
    layer { name: 'b' type: 'InnerProduct' bottom: 'z' top: 'v' param { name: 'w' }
            inner_product_param { num_output: 3 bias_term: false } })");
  const onnx::GraphProto graph = onnx_export::ModelOf(net.net()).graph();
  EXPECT_EQ(graph.initializer_size(), 1);
  EXPECT_EQ(graph.node(0).input(1), graph.node(1).input(1));
}

TEST(OnnxGraph, NamesAllLayersThatItHasNothingFor) {
  RandomNet net(InputLayers("x 2 3 8 8") + R"(
    layer { name: 'one' type: 'SPP' bottom: 'x' top: 'y' spp_param { pyramid_height: 2 } }
    layer { name: 'two' type: 'Pooling' bottom: 'x' top: 'z'
            pooling_param { pool: STOCHASTIC kernel_size: 2 } }
    layer { name: 'three' type: 'Dropout' bottom: 'x' top: 'w'
            dropout_param { sample_weights_test: true } }
    layer { name: 'four' type: 'Convolution' bottom: 'x' top: 'v'
            convolution_param { num_output: 1 kernel_size: 9 stride: 2 } })");
  const std::string error = ErrorOf([&] { onnx_export::ModelOf(net.net()); });
  EXPECT_CONTAINS(error, "layer 'one': a layer of type SPP has no form in ONNX");
  EXPECT_CONTAINS(error, "; layer 'two': pooling_param.pool: ");
  EXPECT_CONTAINS(error, "; layer 'three': type: a Dropout layer that draws random numbers");
  EXPECT_CONTAINS(error, "; layer 'four': convolution_param: the kernel is larger");
}

}  // namespace
}  // namespace millrace::test
