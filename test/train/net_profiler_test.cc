#include "train/net_profiler.h"

#include "test/support/fake_clock.h"
#include "test/support/problem.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

TEST(NetProfiler, GivesMediansPerLayerAndTheirSums) {
  const std::string text = R"(
    name: 'timed'
    layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
            dummy_data_param { shape { dim: 4 dim: 10 } shape { dim: 4 } } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
            inner_product_param { num_output: 3 } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  BuiltNetOptions options;
  options.state.set_phase(caffe::TRAIN);
  BuiltNet net(param, source, options);
  const auto weights = WeightBuffer::CreatePrivate(net.layout());
  net.BindWeights(weights->data());
  net.FillWeights();

  const TimeReport report = TimeNet(&net, 5, FakeClock([](int) { return 1'000'000; }));
  EXPECT_EQ(report.net(), "timed");
  EXPECT_EQ(report.batch(), 4);
  EXPECT_EQ(report.iterations(), 5);
  ASSERT_EQ(report.layer_size(), 3);
  EXPECT_EQ(report.layer(1).name(), "ip");
  EXPECT_EQ(report.layer(1).type(), "InnerProduct");
  for (const LayerTime& layer : report.layer()) {
    EXPECT_NEAR(layer.forward_ms(), 1, 1e-9);
    EXPECT_NEAR(layer.backward_ms(), 1, 1e-9);
  }
  EXPECT_NEAR(report.forward_ms(), 3, 1e-9);
  EXPECT_NEAR(report.backward_ms(), 3, 1e-9);
  EXPECT_NEAR(report.images_per_second(), 4 / 6e-3, 1e-6);
  EXPECT_NEAR(report.weight_mib(), (32.0 + 16) * 4 / (1 << 20), 1e-9);  // in whole cache lines
  EXPECT_GT(report.activation_mib(), 0);
  EXPECT_EQ(report.weight_gradient_mib(), report.weight_mib());
  EXPECT_NEAR(
      report.activation_mib(),
      report.activation_value_mib() + report.activation_gradient_mib() + report.workspace_mib(),
      1e-12);
  EXPECT_NEAR(report.mean_forward_ms(), 3, 1e-9);
  EXPECT_NEAR(report.mean_backward_ms(), 3, 1e-9);
  EXPECT_GE(report.total_ms(), 5 * 6);

  const std::string table = TimeTable(report);
  for (const char* part :
       {"layer", "data", "DummyData", "ip", "loss", "666.7 images/s", "batch 4",
        "medians of 5 iterations", "\nweights ", "\nactivations ", "\nall of these "}) {
    EXPECT_CONTAINS(table, part);
  }
}

}  // namespace
}  // namespace millrace::test
