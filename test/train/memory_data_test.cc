// Data that a program gives to its nets and sessions.
#include <numeric>

#include "millrace/caffe.pb.h"
#include "millrace/net.h"
#include "millrace/session.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

constexpr char kNet[] =
    "name: 'fed'\n"
    "layer { name: 'data' type: 'MemoryData' top: 'x' top: 'label'\n"
    "  memory_data_param { batch_size: 2 channels: 1 height: 1 width: 2 }\n"
    "  transform_param { scale: 0.5 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

TEST(MemoryData, FeedsANetWithArraysAndDatums) {
  const auto net = Net::OpenText(kNet, "fed.prototxt");
  EXPECT_EQ(ErrorOf([&] { net->Forward(); }),
            "layer 'data': has no data: the program gives it with SetMemoryData");
  net->SetMemoryData("data", Floats{1, 2, 3, 4, 5, 6, 7, 8}, Floats{0, 1, 1, 0});
  net->Forward();
  EXPECT_EQ(net->Values("ip"), (Floats{3, 3, 7, 7}));
  EXPECT_EQ(net->Values("label"), (Floats{0, 1}));
  net->Forward();
  EXPECT_EQ(net->Values("ip"), (Floats{11, 11, 15, 15}));
  net->Forward();
  EXPECT_EQ(net->Values("x"), (Floats{1, 2, 3, 4}));
  std::vector<caffe::Datum> datums(2);
  for (int i = 0; i < 2; ++i) {
    datums[i].set_channels(1), datums[i].set_height(1), datums[i].set_width(2);
    datums[i].set_data(std::string(2, static_cast<char>(10 * (i + 1))));
    datums[i].set_label(i);
  }
  net->SetMemoryData("data", datums);
  net->Forward();
  EXPECT_EQ(net->Values("x"), (Floats{5, 5, 10, 10}));
}

TEST(MemoryData, SaysWhatIsWrongInOneLine) {
  const auto net = Net::OpenText(kNet, "fed.prototxt");
  EXPECT_EQ(ErrorOf([&] { net->SetMemoryData("ip", Floats{1}, Floats{1}); }),
            "net 'fed': there is no layer 'ip' of type MemoryData");
  EXPECT_EQ(ErrorOf([&] { net->SetMemoryData("data", Floats(6), Floats(3)); }),
            "layer 'data': 3 labels given, expected a multiple of batch_size, 2");
}

// Two classes: the sign of the first value.
TEST(MemoryData, FeedsTheNetsOfASession) {
  const Workspace work;
  WriteFile(work / "fed.prototxt", kNet);
  const auto session = Session::OpenText(
      "net: '" + work / "fed.prototxt" +
          "' base_lr: 0.5 lr_policy: 'fixed' max_iter: 40 test_iter: 1 test_interval: 100 "
          "snapshot_prefix: '" +
          work / "fed'",
      "solver.prototxt");
  EXPECT_CONTAINS(ErrorOf([&] { session->Step(); }), "layer 'data': has no data");
  const Floats values = {1, 0.5f, -1, 0.25f, 2, -1, -2, 0}, labels = {0, 1, 0, 1};
  session->SetMemoryData("data", values, labels);
  float first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    last = session->Step()->loss;
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first / 2);
  EXPECT_CONTAINS(ErrorOf([&] { session->Test(0); }), "layer 'data': has no data");
  session->SetMemoryData("data", values, labels, 0);
  EXPECT_LT(session->Test(0).at(0).mean, first / 2);
  EXPECT_CONTAINS(ErrorOf([&] { session->SetMemoryData("data", values, labels, 3); }),
                  "test net 3: the solver file has 1 test nets");
}

}  // namespace
}  // namespace millrace::test
