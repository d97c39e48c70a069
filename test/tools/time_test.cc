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
