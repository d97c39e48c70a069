// millrace time.
#include <google/protobuf/util/json_util.h>

#include "proto/metrics.pb.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

TEST(Time, PrintsALinePerLayerAndTheSums) {
  Workspace work;
  const CommandResult result =
      Millrace({"time", "--model=" + work / "net.prototxt", "--iterations=5"});
  ASSERT_EQ(result.status, 0) << result.errors;
  for (const char* layer : {"images", "hidden", "relu", "scores", "loss"}) {
    const auto times =
        Matches(result.output, "\n" + std::string(layer) + R"( +\w+ +(\d+\.\d{3}) +\d+\.\d{3}\n)");
    // The pattern consumes whole lines, which is safe because one layer is matched at a time.
    EXPECT_EQ(times.size(), 1u) << layer << " in\n" << result.output;
  }
  EXPECT_EQ(Matches(result.output, R"((\d+\.\d) images/s forward and backward, batch 8)").size(),
            1u);
  EXPECT_EQ(result.output.find("accuracy"), std::string::npos);  // a layer of the other phase
}

// The lines that scripts take from `caffe time`.
TEST(Time, LogsTheTimesAsCaffeDoes) {
  Workspace work;
  const CommandResult result =
      Millrace({"time", "-model", work / "net.prototxt", "-iterations", "3"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const std::string ms = R"([\d.e-]+ ms\.\n)";
  for (const std::string& line :
       {std::string(R"(\] \*\*\* Benchmark begins \*\*\*\n)"),
        std::string(R"(\] Testing for 3 iterations\.\n)"),
        R"(\] Iteration: 3 forward-backward time: )" + ms,
        std::string(R"(\] Average time per layer: \n)"), R"(\]     hidden\tforward: )" + ms,
        R"(\]     hidden\tbackward: )" + ms, R"(\] Average Forward pass: )" + ms,
        R"(\] Average Backward pass: )" + ms, R"(\] Average Forward-Backward: )" + ms,
        R"(\] Total Time: )" + ms, std::string(R"(\] \*\*\* Benchmark ends \*\*\*\n)")}) {
    EXPECT_EQ(Matches(result.errors, line, 0).size(), 1u) << line << result.errors;
  }
}

TEST(Time, PrintsTheMemory) {
  Workspace work;
  const CommandResult result =
      Millrace({"time", "--model=" + work / "net.prototxt", "--iterations=1"});
  ASSERT_EQ(result.status, 0) << result.errors;
  double sum = 0;
  for (const char* name : {"weights", "gradients of the weights", "activations",
                           "gradients of the activations", "workspace that the layers share"}) {
    const auto found = Matches(result.output, StrCat("\n", name, R"( +(\d+\.\d\d)\n)"));
    ASSERT_EQ(found.size(), 1u) << name << result.output;
    sum += std::stod(found[0]);
  }
  EXPECT_NEAR(std::stod(Matches(result.output, R"(\nall of these +(\d+\.\d\d)\n)").at(0)), sum,
              0.03);
  EXPECT_GT(std::stod(Matches(result.output, R"(\npeak resident memory .* (\d+\.\d\d)\n)").at(0)),
            1);
}

// As `caffe time`, which runs each layer's backward pass whether or not there is a loss.
TEST(Time, RunsTheBackwardPassOfADeployNet) {
  TempDir folder;
  WriteFile(folder / "deploy.prototxt",
            "name: 'deploy' layer { name: 'data' type: 'Input' top: 'data'\n"
            " input_param { shape { dim: 8 dim: 64 dim: 16 dim: 16 } } }\n"
            "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
            " convolution_param { num_output: 64 kernel_size: 3 } }\n"
            "layer { name: 'conv2' type: 'Convolution' bottom: 'conv' top: 'conv2'\n"
            " convolution_param { num_output: 64 kernel_size: 3 } }\n"
            "layer { name: 'prob' type: 'Softmax' bottom: 'conv2' top: 'prob' }");
  const CommandResult result =
      Millrace({"time", "--model=" + folder / "deploy.prototxt", "--iterations=3", "--json"});
  ASSERT_EQ(result.status, 0) << result.errors;
  TimeReport report;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result.output, &report).ok());
  for (const LayerTime& layer : report.layer()) {
    if (layer.type() != "Convolution") continue;
    // 58 million products; a pass that does nothing takes less than a microsecond.
    EXPECT_GT(layer.backward_ms(), 0.01) << layer.name();
  }
  EXPECT_GT(report.activation_gradient_mib(), 0);
}

TEST(Time, JsonHoldsTheSameAsNumbers) {
  Workspace work;
  const CommandResult result = Millrace(
      {"time", "--model=" + work / "net.prototxt", "--iterations=7", "--json", "--phase=TEST"});
  ASSERT_EQ(result.status, 0) << result.errors;
  TimeReport report;
  const auto status = google::protobuf::util::JsonStringToMessage(result.output, &report);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_CONTAINS(result.output, "\"images_per_second\"");  // field names are kept
  EXPECT_EQ(report.net(), "small");
  EXPECT_EQ(report.batch(), 16);
  EXPECT_EQ(report.iterations(), 7);
  double forward = 0;
  bool accuracy = false;
  for (const LayerTime& layer : report.layer()) {
    EXPECT_GE(layer.forward_ms(), 0);
    EXPECT_GE(layer.backward_ms(), 0);
    forward += layer.forward_ms();
    accuracy |= layer.type() == "Accuracy";
  }
  EXPECT_TRUE(accuracy);
  EXPECT_GT(report.forward_ms(), 0);
  EXPECT_GT(report.backward_ms(), 0);
  EXPECT_GT(forward, 0);
  const double ms = report.forward_ms() + report.backward_ms();
  EXPECT_NEAR(report.images_per_second() * ms, 16e3, 1);
  EXPECT_GT(report.weight_mib(), 0);
  EXPECT_GT(report.activation_mib(), 0);
  EXPECT_EQ(report.weight_gradient_mib(), report.weight_mib());
  EXPECT_NEAR(
      report.activation_mib(),
      report.activation_value_mib() + report.activation_gradient_mib() + report.workspace_mib(),
      1e-9);
  EXPECT_GT(report.peak_resident_mib(), report.weight_mib());
  EXPECT_GE(report.total_ms(), 7 * 0.5 * ms);
  EXPECT_GT(report.mean_forward_ms(), 0);
  EXPECT_GT(report.mean_backward_ms(), 0);
}

TEST(Time, TakesTheStateForRules) {
  Workspace work;
  SmallNet net = work.Net();
  net.more_layers =
      "layer { name: 'deep' type: 'ReLU' bottom: 'scores' top: 'deep' "
      "include { min_level: 2 stage: 'a' } }\n";
  work.WriteNet(net);
  const std::string model = "--model=" + work / "net.prototxt";
  EXPECT_EQ(Millrace({"time", model, "--iterations=1"}).output.find("deep "), std::string::npos);
  EXPECT_CONTAINS(Millrace({"time", model, "--iterations=1", "--level=2", "--stage=b,a"}).output,
                  "deep ");
}

}  // namespace
}  // namespace millrace::test
