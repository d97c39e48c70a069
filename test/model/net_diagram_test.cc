// Pictures of nets, as the text that Graphviz gets.
#include "model/net_diagram.h"

#include <gtest/gtest.h>

#include "model/layer_text.h"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr char kNetDiagramNet[] = R"(
  name: 'Tiny <1>'
  layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
  layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv'
          convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } }
  layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
  layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
          pooling_param { pool: MAX kernel_h: 2 kernel_w: 3 } }
  layer { name: 'sum' type: 'Power' bottom: 'conv' top: 'sum' power_param { scale: 2 } })";

std::string DiagramOf(const std::string& text, bool with_net,
                      DiagramDirection direction = DiagramDirection::kDown) {
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net", &param, &source);
  BuiltNetOptions options;
  std::unique_ptr<BuiltNet> net;
  if (with_net) net = std::make_unique<BuiltNet>(param, source, options);
  return NetDiagram(param, source, options.state, net.get(), direction);
}

TEST(NetDiagram, ShowsLayersWithSettingsWeightsAndShapes) {
  const std::string dot = DiagramOf(kNetDiagramNet, true);
  EXPECT_CONTAINS(dot, "<B>Tiny &lt;1&gt;</B>");
  EXPECT_CONTAINS(dot, "112 weights");  // 4 x 3 x 3 x 3 and 4
  EXPECT_CONTAINS(dot, "<B>conv</B><BR/>Convolution<BR/>4 \u00d7 3\u00d73, stride 2, pad 1");
  EXPECT_CONTAINS(dot, "Pooling<BR/>MAX 2\u00d73");
  EXPECT_CONTAINS(dot, "2 \u00d7 4 \u00d7 4 \u00d7 4");
  EXPECT_CONTAINS(dot, "scale 2");
}

TEST(NetDiagram, FoldsALayerInPlaceUnlessAnotherReadTheBlobBefore) {
  const std::string dot =
      DiagramOf(std::string(kNetDiagramNet) +
                    "layer { name: 'late' type: 'TanH' bottom: 'conv' top: 'conv' }\n"
                    "layer { name: 'end' type: 'AbsVal' bottom: 'conv' top: 'end' }",
                false);
  // in, conv with relu, pool, sum, late, end
  EXPECT_CONTAINS(dot, "  n5 [");
  EXPECT_EQ(dot.find("  n6 ["), std::string::npos) << dot;
  EXPECT_CONTAINS(dot, "<B>relu</B>  ReLU");
  EXPECT_CONTAINS(dot, "n1:s -> n2:n;");  // conv to pool
  EXPECT_CONTAINS(dot, "n1:s -> n4:n;");  // conv to late
  EXPECT_CONTAINS(dot, "n4:s -> n5:n;");  // and what that made to end
  EXPECT_EQ(dot.find("n1:s -> n5:n;"), std::string::npos) << dot;
}

TEST(NetDiagram, ArrowsLeaveOnTheSideWhereTheDataFlows) {
  EXPECT_CONTAINS(DiagramOf(kNetDiagramNet, false, DiagramDirection::kRight), "n1:e -> n2:w;");
  EXPECT_CONTAINS(DiagramOf(kNetDiagramNet, false, DiagramDirection::kLeft), "n1:w -> n2:e;");
}

TEST(NetDiagram, ALabelStandsBesideTheLayerThatReadsIt) {
  const std::string dot = DiagramOf(
      "layer { name: 'data' type: 'DummyData' top: 'x' top: 'label' dummy_data_param {\n"
      "  shape { dim: 2 dim: 3 } shape { dim: 2 } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' top: 'loss' }",
      true);
  EXPECT_CONTAINS(dot, "n0:t0:s -> n1:n;");
  EXPECT_EQ(dot.find("n0:t1"), std::string::npos) << dot;
  EXPECT_CONTAINS(dot, "label=<<I>label</I>>");
  EXPECT_CONTAINS(dot, "s0 -> n1:n;");
}

TEST(NetDiagram, NamesSharedWeights) {
  const std::string dot = DiagramOf(
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' param { name: 'w' }\n"
      "  param { name: 'b' } inner_product_param { num_output: 4 } }",
      true);
  EXPECT_CONTAINS(dot, "16 weights shared as w, b");
}

TEST(NetDiagram, RefusesOtherDirectionsAndFormats) {
  EXPECT_EQ(ParseDiagramDirection("BT"), DiagramDirection::kUp);
  EXPECT_EQ(ErrorOf([] { ParseDiagramDirection("up"); }),
            "--rankdir=up: expected TB, LR, BT or RL");
  EXPECT_CONTAINS(ErrorOf([] { CheckDiagramPath("a.b/net"); }), ".svg, .png, .pdf or .dot");
  EXPECT_CONTAINS(ErrorOf([] { DrawNetDiagram("", "net.gif"); }), "net.gif: ");
}

TEST(LayerText, GroupsDigits) {
  EXPECT_EQ(GroupedDigits(0), "0");
  EXPECT_EQ(GroupedDigits(123), "123");
  EXPECT_EQ(GroupedDigits(1234), "1,234");
  EXPECT_EQ(GroupedDigits(123456789), "123,456,789");
  EXPECT_EQ(GroupedDigits(-123456), "-123,456");
}

TEST(LayerText, TellsTheFieldsOfOtherLayers) {
  caffe::LayerParameter layer;
  ParseText("type: 'Data' data_param { source: '/a/b/mnist_lmdb' batch_size: 64 backend: LMDB }",
            "layer", &layer, nullptr);
  EXPECT_EQ(LayerDetails(layer), "source mnist_lmdb, batch_size 64, backend LMDB");
  layer.Clear();
  ParseText("type: 'Input' input_param { shape { dim: 2 } }", "layer", &layer, nullptr);
  EXPECT_EQ(LayerDetails(layer), "");
  layer.Clear();
  ParseText(
      "type: 'Convolution' convolution_param { num_output: 8 kernel_size: 3 kernel_size: 5\n"
      "  stride: 2 stride: 1 dilation: 2 group: 4 }",
      "layer", &layer, nullptr);
  EXPECT_EQ(LayerDetails(layer), "8 \u00d7 3\u00d75, stride 2\u00d71, dilation 2, 4 groups");
}

}  // namespace
}  // namespace millrace::test
