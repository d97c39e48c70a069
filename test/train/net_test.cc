// The public class Net.
#include "millrace/net.h"

#include <barrier>
#include <cmath>
#include <thread>

#include "millrace/cluster.h"
#include "millrace/session.h"
#include "proto/parse.h"
#include "test/support/free_port.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

constexpr char kSmall[] =
    "name: 'tiny'\n"
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label'\n"
    "  input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }\n"
    "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' include { phase: TEST } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'\n"
    "  include { phase: TRAIN } }\n";

std::vector<std::string> Names(const std::vector<NetBlob>& blobs) {
  std::vector<std::string> names;
  for (const NetBlob& blob : blobs) names.push_back(blob.name);
  return names;
}

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;

TEST(PublicNet, ComputesItsOutputsFromItsInputs) {
  const auto net = Net::OpenText(kSmall, "tiny.prototxt");
  EXPECT_EQ(net->name(), "tiny");
  EXPECT_EQ(Names(net->inputs()), (Strings{"x", "label"}));
  EXPECT_EQ(net->inputs()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(Names(net->outputs()), (Strings{"label", "prob"}));
  EXPECT_EQ(Names(net->blobs()), (Strings{"x", "label", "ip", "prob"}));
  const std::vector<WeightArray> arrays = net->arrays();
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "ip/0");
  EXPECT_EQ(arrays[0].shape, (Shape{2, 3}));
  net->weights()[arrays[1].offset] = 0.5f;
  net->SetInput("x", Floats{1, 2, 3, -1, -1, -1});
  EXPECT_EQ(net->Forward(), 0);
  EXPECT_EQ(net->Values("x"), (Floats{1, 2, 3, -1, -1, -1}));
  EXPECT_EQ(net->Values("ip"), (Floats{6.5f, 6, 0, 0}));
  const Floats prob = net->Values("prob");
  EXPECT_NEAR(prob[0], 1 / (1 + std::exp(-0.5)), 1e-6);
  EXPECT_EQ(prob[2], 0.5f);
  // The inputs stay.
  net->weights()[arrays[1].offset] = 0;
  net->Forward();
  EXPECT_EQ(net->Values("ip"), (Floats{6, 6, 0, 0}));
}

// A loss counts whether or not the file names its top; only a top with a name is a blob.
TEST(PublicNet, HasNoBlobOfATopWithoutAName) {
  std::string text = kSmall;
  const std::string top = "top: 'loss'";
  text.erase(text.find(top), top.size());
  NetOptions options;
  options.train = true;
  const auto net = Net::OpenText(text, "tiny.prototxt", options);
  EXPECT_EQ(Names(net->blobs()), (Strings{"x", "label", "ip"}));
  EXPECT_TRUE(net->outputs().empty());
  net->SetInput("label", Floats{0, 1});
  net->SetInput("x", Floats{1, 2, 3, 1, 0, 0});
  EXPECT_NEAR(net->Forward(), std::log(2.0), 1e-6);
}

TEST(PublicNet, ComputesTheGradientsOfItsLastForward) {
  NetOptions options;
  options.train = true;
  caffe::NetParameter param;
  ParseText(kSmall, "tiny.prototxt", &param, nullptr);
  param.set_force_backward(true);
  const auto net = Net::Create(param, options);
  EXPECT_EQ(Names(net->outputs()), Strings{"loss"});
  EXPECT_CONTAINS(ErrorOf([&] { net->Backward(); }), "expected a Forward before it");
  net->SetInput("x", Floats{1, 2, 3, 1, 0, 0});
  net->SetInput("label", Floats{0, 1});
  EXPECT_NEAR(net->Forward(), std::log(2.0), 1e-6);
  for (int i = 0; i < 2; ++i) {
    net->Backward();  // overwrites, does not add
    // Both classes have the probability 1/2, and the mean is over two examples.
    EXPECT_EQ(net->Gradients("ip"), (Floats{-0.25f, 0.25f, 0.25f, -0.25f}));
    EXPECT_EQ(net->Gradients("x"), Floats(6, 0));  // the two rows of weights are the same
    const WeightArray weights = net->arrays()[0];
    const std::span<const float> gradients = net->gradients();
    EXPECT_EQ(gradients.size(), net->weights().size());
    EXPECT_EQ(Floats(&gradients[weights.offset], &gradients[weights.offset] + weights.count),
              (Floats{0, -0.5f, -0.75f, 0, 0.5f, 0.75f}));
  }
}

TEST(PublicNet, HasItsShapesFromTheMessage) {
  caffe::NetParameter param;
  ParseText(kSmall, "tiny.prototxt", &param, nullptr);
  param.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 5);
  const auto net = Net::Create(param);
  EXPECT_EQ(net->inputs()[0].shape, (Shape{5, 3}));
  EXPECT_EQ(net->Values("prob").size(), 10u);
}

TEST(PublicNet, GivesValuesRowByRowWhateverTheOrderInMemory) {
  // 16 outputs: in memory they are in blocks of channels, or channels innermost.
  const auto net = Net::OpenText(
      "name: 'c' layer { name: 'in' type: 'Input' top: 'x'"
      " input_param { shape { dim: 2 dim: 1 dim: 3 dim: 2 } } }"
      " layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv'"
      " convolution_param { num_output: 16 kernel_size: 1 weight_filler { type: 'constant' } } }"
      " layer { name: 'end' type: 'Convolution' bottom: 'conv' top: 'end'"
      " convolution_param { num_output: 16 kernel_size: 1 weight_filler { type: 'constant' } } }",
      "c.prototxt");
  for (const WeightArray& array : net->arrays()) {
    if (array.name != "conv/0") continue;
    for (int64_t channel = 0; channel < 16; ++channel) {
      net->weights()[array.offset + channel] = static_cast<float>(1 + channel);
    }
  }
  Floats x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  net->SetInput("x", x);
  net->Forward();
  const Floats conv = net->Values("conv");
  ASSERT_EQ(conv.size(), 2u * 16 * 6);
  for (size_t i = 0; i < conv.size(); ++i) {
    const size_t image = i / 96, channel = i / 6 % 16, pixel = i % 6;
    ASSERT_EQ(conv[i], static_cast<float>((1 + channel) * (6 * image + pixel))) << i;
  }
}

TEST(PublicNet, SaysWhatIsWrongInOneLine) {
  const auto net = Net::OpenText(kSmall, "tiny.prototxt");
  EXPECT_EQ(ErrorOf([&] { net->SetInput("y", Floats(6)); }),
            "net 'tiny': there is no input 'y'; inputs: x, label");
  EXPECT_EQ(ErrorOf([&] { net->SetInput("ip", Floats(4)); }),
            "net 'tiny': there is no input 'ip'; inputs: x, label");
  EXPECT_EQ(ErrorOf([&] { net->SetInput("x", Floats(5)); }),
            "net 'tiny': input 'x': 5 values given, expected 2 3 (6)");
  EXPECT_EQ(ErrorOf([&] { (void)net->Values("y"); }),
            "net 'tiny': there is no blob 'y'; blobs: x, label, ip, prob");
  EXPECT_CONTAINS(ErrorOf([&] { (void)net->Gradients("loss"); }), "there is no blob 'loss'");
  EXPECT_CONTAINS(ErrorOf([&] { (void)Net::Open("none.prototxt"); }), "none.prototxt");
  EXPECT_CONTAINS(ErrorOf([&] { (void)Net::OpenText("layer { name: 'a' }", "a.prototxt"); }),
                  "a.prototxt:1: layer 'a': type: missing");
  caffe::NetParameter param;
  ParseText("name: 'm' layer { name: 'a' type: 'ReLU' bottom: 'q' top: 'q' }", "m", &param,
            nullptr);
  EXPECT_EQ(ErrorOf([&] { (void)Net::Create(param); }),
            "net 'm': layer 'a': bottom[0]: there is no blob 'q' at this point of the net");
}

TEST(PublicNet, SavesAndLoadsWeightsByLayerName) {
  TempDir folder;
  const auto net = Net::OpenText(kSmall, "tiny.prototxt");
  for (float& weight : net->weights()) weight = 0.25f;
  const std::string model = folder / "tiny.caffemodel";
  net->SaveWeights(model);
  const auto other = Net::OpenText(kSmall, "tiny.prototxt");
  EXPECT_EQ(other->weights()[0], 1);
  EXPECT_EQ(other->LoadWeights(model), 1);
  EXPECT_EQ(other->weights()[0], 0.25f);

  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = kSmall;
    text.replace(text.find(from), from.size(), to);
    const auto misfit = Net::OpenText(text, "tiny.prototxt");
    return ErrorOf([&] { misfit->LoadWeights(model); });
  };
  EXPECT_CONTAINS(changed("num_output: 2", "num_output: 3"),
                  model + ": layer 'ip' blob 0: stored with shape 2 3 (6), expected 3 3 (9)");
  EXPECT_CONTAINS(changed("num_output: 2", "num_output: 2 bias_term: false"),
                  model + ": layer 'ip': holds 2 blobs, expected 1");
  EXPECT_EQ(changed("name: 'ip'", "name: 'fc'"),
            model + ": no layer with weights has the name of one in net 'tiny'");
  EXPECT_CONTAINS(ErrorOf([&] { net->LoadWeights(folder / "none.caffemodel"); }),
                  "none.caffemodel: ");
  WriteFile(folder / "text", "text");
  EXPECT_CONTAINS(ErrorOf([&] { net->LoadWeights(folder / "text"); }), "text: ");
  EXPECT_CONTAINS(ErrorOf([&] { net->SaveWeights("/nowhere/x.caffemodel"); }), "/nowhere");
}

TEST(PublicNet, ReadsDataAndScoresAsTheTestDoes) {
  Workspace work;
  const auto session =
      Session::Open(work.Write("run", Workspace::Tested(Workspace::Solver(20), 100)));
  while (session->Step()) {
  }
  session->Snapshot();
  const auto net = Net::Open(work / "net.prototxt");
  EXPECT_EQ(net->LoadWeights(work.Snapshot("run", 20) + ".caffemodel"), 2);
  double accuracy = 0;
  for (int batch = 0; batch < 2; ++batch) {
    net->Forward();
    accuracy += net->Values("accuracy")[0] / 2;
  }
  for (const TestOutput& output : session->Test()) {
    if (output.name == "accuracy") {
      EXPECT_EQ(output.mean, accuracy);
    }
  }
}

TEST(PublicNet, OfASessionHasTheBlobsOfItsLastStep) {
  Workspace work;
  const auto session = Session::Open(work.Write("run", Workspace::Solver(3)));
  const Net& net = session->net();
  for (int i = 0; i < 3; ++i) {
    const auto step = session->Step();
    ASSERT_TRUE(step);
    EXPECT_EQ(net.Values("loss"), Floats{step->loss});
  }
  EXPECT_EQ(net.weights().data(), session->weights().data());
  EXPECT_EQ(net.Values("data").size(), 8u * 64);
  double squares = 0;
  for (const float gradient : net.gradients()) squares += double{gradient} * gradient;
  EXPECT_GT(squares, 0);
}

// A program's own training: gradients of a net, an update of the program's own.
TEST(PublicNet, SeveralInSeveralThreadsDoNotDisturbEachOther) {
  NetOptions options;
  options.train = true;
  const auto train = [&](Floats* weights) {
    const auto net = Net::OpenText(kSmall, "tiny.prototxt", options);
    net->SetInput("x", Floats{1, 2, 3, 3, 2, 1});
    net->SetInput("label", Floats{0, 1});
    for (int i = 0; i < 200; ++i) {
      net->Forward();
      net->Backward();
      for (size_t k = 0; k < net->weights().size(); ++k) {
        net->weights()[k] -= 0.5f * net->gradients()[k];
      }
    }
    EXPECT_LT(net->Forward(), 0.05f);
    weights->assign(net->weights().begin(), net->weights().end());
  };
  Floats one, two;
  std::thread first([&] { train(&one); }), second([&] { train(&two); });
  first.join();
  second.join();
  EXPECT_EQ(one, two);
}

TEST(PublicNet, TrainsInAClusterByItsOwnUpdates) {
  TempDir folder;
  const std::string topology = folder / "pair.prototxt";
  WriteFile(topology, StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                             " node { name: 'b' address: '127.0.0.2' }",
                             " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  NetOptions options;
  options.train = true;
  std::vector<Floats> learned(2);
  std::barrier both(2);
  const auto node = [&](size_t index) {
    const auto net = Net::OpenText(kSmall, "tiny.prototxt", options);
    ClusterMember member({.topology = topology, .node = index == 0 ? "a" : "b"}, net->weights());
    member.Join();
    both.arrive_and_wait();
    net->SetInput("x", index == 0 ? Floats{1, 2, 3, 3, 2, 1} : Floats{2, 3, 4, 4, 3, 2});
    net->SetInput("label", Floats{0, 1});
    while (member.iterations() < 2000) {
      net->Forward();
      net->Backward();
      member.Update([&](size_t offset, std::span<float> part) {
        for (size_t i = 0; i < part.size(); ++i) part[i] -= 0.05f * net->gradients()[offset + i];
      });
    }
    member.Finish();
    learned[index].assign(net->weights().begin(), net->weights().end());
    EXPECT_LT(net->Forward(), 0.3f);
  };
  std::thread first(node, 0), second(node, 1);
  first.join();
  second.join();
  EXPECT_EQ(learned[0], learned[1]);
}

TEST(PublicNet, OpensTheExampleForImages) {
  const auto net = Net::Open("examples/fashion_mnist/lenet_deploy.prototxt");
  EXPECT_EQ(Names(net->inputs()), Strings{"data"});
  EXPECT_EQ(Names(net->outputs()), Strings{"prob"});
  EXPECT_EQ(net->arrays().size(), 8u);
}

}  // namespace
}  // namespace millrace::test
