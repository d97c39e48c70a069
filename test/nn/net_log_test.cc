// The lines of debug_info.
#include <glog/logging.h>

#include "test/nn/net_support.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

// The log lines with a tag of debug_info.
class DebugLines : public google::LogSink {
 public:
  DebugLines() {
    FLAGS_minloglevel = google::GLOG_INFO;
    google::AddLogSink(this);
  }
  ~DebugLines() override {
    google::RemoveLogSink(this);
    FLAGS_minloglevel = least_;
  }
  void send(google::LogSeverity, const char*, const char*, int, const std::tm*, const char* message,
            size_t length) override {
    const std::string line(message, length);
    if (line.starts_with("    [")) lines_.push_back(line);
  }
  const Strings& lines() const { return lines_; }

 private:
  const int least_ = FLAGS_minloglevel;  // of the test program
  Strings lines_;
};

const char kNet[] = R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' loss_weight: 3
        param { name: 'w' } param { lr_mult: 0 } propagate_down: true
        inner_product_param { num_output: 2 }
        blobs { shape { dim: 2 dim: 2 } data: [1, -2, 3, -4] } blobs { shape { dim: 2 } data: [5, -7] } }
)";

// The lines of one forward and backward pass with the input (1, -2) on `device`.
Strings LinesOf(const std::string& text, bool set = true, Device& device = HostDevice()) {
  caffe::NetParameter param;
  ParseText(text, "net.prototxt", &param, nullptr);
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  options.device = &device;
  BuiltNet net(param, SourceMap(), options);
  const Buffer weights(device.memory(), net.layout().size() * sizeof(float) + 1);
  device.memory().Fill(weights.get(), 0, weights.bytes());
  net.BindWeights(weights.get<float>());
  net.FillWeights();
  Blob& data = *net.FindBlob("data");
  std::vector<float> values(data.count());
  values[0] = 1, values[1] = -2;
  data.CopyDataFromHost(values.data());
  if (set) net.set_debug_info(true);
  DebugLines lines;
  net.ClearGradients();
  net.Forward();
  net.Backward();
  net.queue().Synchronize();
  return lines.lines();
}

TEST(NetDebugInfo, LogsMeansOfAbsoluteValuesLayerByLayer) {
  // ip = (1 + 4 + 5, 3 + 8 - 7) = (10, 4), its gradient (3, 3); that of w (3, -6, 3, -6), that of
  // data (3 + 9, -6 - 12).
  EXPECT_EQ(LinesOf(kNet),
            (Strings{
                "    [Forward] Layer data, top blob data data: 1.5",
                "    [Forward] Layer ip, top blob ip data: 7",
                "    [Forward] Layer ip, param blob w data: 2.5",
                "    [Forward] Layer ip, param blob 1 data: 6",
                "    [Backward] Layer ip, bottom blob data diff: 15",
                "    [Backward] Layer ip, param blob 0 diff: 4.5",
                "    [Backward] All net params (data, diff): L1 norm = (22, 18); L2 norm = "
                "(10.198, 9.48683)",
            }));
}

TEST(NetDebugInfo, IsTheSameOfANetOnAnotherDevice) {
  FakeDevice device;
  EXPECT_EQ(LinesOf(kNet, true, device), LinesOf(kNet));
}

TEST(NetDebugInfo, IsOffUnlessAsked) {
  EXPECT_EQ(LinesOf(kNet, false), Strings());
  EXPECT_EQ(LinesOf(StrCat("debug_info: true\n", kNet), false).size(), 7u);
}

TEST(NetDebugInfo, HasNoLinesForConversionsOfMemoryOrders) {
  const Strings lines = LinesOf(
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 8 dim: 4 "
      "dim: "
      "4 } } }\nlayer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
      "num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }");
  // The blobs of data and c, and two parameters; then the norms.
  EXPECT_EQ(lines.size(), 5u);
}

}  // namespace
}  // namespace millrace::test
