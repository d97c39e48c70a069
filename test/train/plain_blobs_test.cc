// Nets and sessions with plain_blobs: what programs read and write between layers.
#include <cmath>

#include "millrace/net.h"
#include "millrace/session.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

constexpr char kDeploy[] =
    "name: 'deploy' force_backward: true\n"
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }\n"
    "layer { name: 'twice' type: 'Power' bottom: 'ip' top: 'twice' power_param { scale: 2 } }\n";

std::unique_ptr<Net> OpenPlain(const std::string& text) {
  NetOptions options;
  options.plain_blobs = true;
  return Net::OpenText(text, "deploy.prototxt", options);
}

std::vector<float> ValuesOf(const Blob& blob) { return {blob.data(), blob.data() + blob.count()}; }

void Set(float* values, const Blob& blob, float value) { std::fill_n(values, blob.count(), value); }

using Floats = std::vector<float>;

TEST(PlainBlobs, AreWhatTheLayersComputeWith) {
  const auto net = OpenPlain(kDeploy);
  Blob& x = net->blob("x");
  const float* const ip = net->blob("ip").data();
  Set(x.data(), x, 1);
  EXPECT_EQ(net->Forward(), 0);
  EXPECT_EQ(ip, net->blob("ip").data());
  EXPECT_EQ(ValuesOf(net->blob("twice")), (Floats{6, 6, 6, 6}));
  EXPECT_EQ(net->Values("twice"), (Floats{6, 6, 6, 6}));
  net->blob("ip").data()[0] = 5;
  net->ForwardLayers(3, 3);
  EXPECT_EQ(ValuesOf(net->blob("twice")), (Floats{10, 6, 6, 6}));
}

TEST(PlainBlobs, OfAConvolutionAreRowByRow) {
  const std::string text =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 16 dim: 6 dim: "
      "6 "
      "} } } layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { "
      "num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
      "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param { "
      "num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }";
  const auto plain = OpenPlain(text);
  const auto best = Net::OpenText(text, "deploy.prototxt");
  Floats image(2 * 16 * 36);
  for (size_t i = 0; i < image.size(); ++i) image[i] = std::sin(static_cast<float>(i));
  for (Net* net : {plain.get(), best.get()}) {
    net->SetInput("x", image);
    net->Forward();
  }
  for (const char* name : {"c", "d"}) {
    const Floats live = ValuesOf(plain->blob(name)), copied = best->Values(name);
    ASSERT_EQ(live.size(), copied.size());
    for (size_t i = 0; i < live.size(); ++i) EXPECT_NEAR(live[i], copied[i], 1e-5) << name << i;
  }
}

TEST(PlainBlobs, TakeTheShapesThatFollowFromTheInputs) {
  const auto net = OpenPlain(kDeploy);
  Blob& x = net->blob("x");
  x.Reshape({40, 3});
  EXPECT_EQ(net->blob("twice").shape(), (Shape{2, 2}));
  net->Reshape();
  EXPECT_EQ(net->blob("twice").shape(), (Shape{40, 2}));
  x.Reshape({1, 3});
  Set(x.data(), x, 2);
  net->Forward();  // reshapes, too
  EXPECT_EQ(ValuesOf(net->blob("twice")), (Floats{12, 12}));
  x.Reshape({1, 4});
  EXPECT_CONTAINS(ErrorOf([&] { net->Forward(); }), "layer 'ip'");
  x.Reshape({2, 3});
  EXPECT_CONTAINS(ErrorOf([&] { net->BackwardLayers(1, 0); }), "expected a forward pass");
}

TEST(PlainBlobs, LetGradientsFlowFromAnyBlob) {
  const auto net = OpenPlain(kDeploy);
  Blob& x = net->blob("x");
  Blob& twice = net->blob("twice");
  Set(x.data(), x, 1);
  net->Forward();
  Set(twice.diff(), twice, 0);
  twice.diff()[0] = 3;
  net->BackwardLayers(3, 0);
  EXPECT_EQ(Floats(x.diff(), x.diff() + 6), (Floats{6, 6, 6, 0, 0, 0}));
  const NetLayer layer = net->layers()[1];
  EXPECT_EQ(layer.weights[1]->diff()[0], 6);
  net->BackwardLayers(3, 0);
  EXPECT_EQ(layer.weights[1]->diff()[0], 12);
  net->ClearGradients();
  EXPECT_EQ(layer.weights[1]->diff()[0], 0);
  net->Backward();
  net->Backward();
  EXPECT_EQ(layer.weights[1]->diff()[0], 6);
}

TEST(PlainBlobs, AreDescribedByLayer) {
  const auto net = OpenPlain(kDeploy);
  const std::vector<NetLayer> layers = net->layers();
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[1].name, "ip");
  EXPECT_EQ(layers[1].type, "InnerProduct");
  EXPECT_EQ(layers[2].bottoms, layers[2].tops);
  EXPECT_EQ(layers[1].loss_weights, Floats{0});
  ASSERT_EQ(layers[1].weights.size(), 2u);
  EXPECT_EQ(layers[1].weights[0]->shape(), (Shape{2, 3}));
  EXPECT_EQ(layers[1].weights[0]->data(), net->weights().data() + net->arrays()[0].offset);
}

TEST(PlainBlobs, UseTheWeightsOfAnotherNet) {
  const auto one = OpenPlain(kDeploy);
  const auto other = OpenPlain(kDeploy);
  other->ShareWeights(*one);
  one->weights()[one->arrays()[1].offset] = 4;
  EXPECT_EQ(other->layers()[1].weights[1]->data()[0], 4);
  std::string wider = kDeploy;
  wider.replace(wider.find("num_output: 2"), 13, "num_output: 3");
  EXPECT_CONTAINS(ErrorOf([&] { OpenPlain(wider)->ShareWeights(*one); }),
                  "layer 'ip' array 0: shape 2 3 (6) given, expected 3 3 (9)");
}

TEST(PlainBlobs, AreAskedForWhenTheNetIsOpened) {
  const auto net = Net::OpenText(kDeploy, "deploy.prototxt");
  EXPECT_EQ(net->layers().size(), 4u);
  EXPECT_CONTAINS(ErrorOf([&] { net->blob("x"); }), "expected a net with plain_blobs");
  EXPECT_CONTAINS(ErrorOf([&] { net->ForwardLayers(0, 1); }), "expected a net with plain_blobs");
  const auto plain = OpenPlain(kDeploy);
  EXPECT_CONTAINS(ErrorOf([&] { plain->ForwardLayers(2, 4); }), "expected a range of 0 to 3");
  EXPECT_CONTAINS(ErrorOf([&] { plain->blob("y"); }), "there is no blob 'y'");
}

SessionOptions Plain() {
  SessionOptions options;
  options.plain_blobs = true;
  return options;
}

TEST(PlainBlobs, OfASessionTrainAsWithoutThem) {
  Workspace work;
  const auto plain = Session::Open(work.Write("plain", Workspace::Solver(5)), Plain());
  const auto usual = Session::Open(work.Write("usual", Workspace::Solver(5)));
  while (const std::optional<SessionStep> step = plain->Step()) {
    EXPECT_NEAR(step->loss, usual->Step()->loss, 1e-4);
  }
  EXPECT_EQ(plain->iteration(), 5);
}

// A batch of a data layer stays where it is when the layer goes on.
TEST(PlainBlobs, OfADataLayerStay) {
  Workspace work;
  const auto session = Session::Open(work.Write("plain", Workspace::Solver(20)), Plain());
  session->Step();
  const std::string name = session->net().layers()[0].tops[0];
  const float* const values = session->net().blob(name).data();
  const Floats first = ValuesOf(session->net().blob(name));
  bool changes = false;
  for (int i = 0; i < 5; ++i) {
    session->Step();
    EXPECT_EQ(session->net().blob(name).data(), values);
    changes |= ValuesOf(session->net().blob(name)) != first;
  }
  EXPECT_TRUE(changes);
}

TEST(PlainBlobs, OfASessionAreAStepByHand) {
  Workspace work;
  const auto own = Session::Open(work.Write("own", Workspace::Solver(5)), Plain());
  const auto whole = Session::Open(work.Write("whole", Workspace::Solver(5)), Plain());
  const float rate = whole->learning_rate();
  EXPECT_EQ(whole->Step()->learning_rate, rate);
  Net& net = own->net();
  net.ClearGradients();
  net.Forward();
  net.BackwardLayers(net.layers().size() - 1, 0);
  own->ApplyUpdate();
  EXPECT_EQ(own->iteration(), 0);
  for (size_t i = 0; i < own->weights().size(); ++i) {
    EXPECT_NEAR(own->weights()[i], whole->weights()[i], 1e-6);
  }
}

TEST(PlainBlobs, OfATestNetShareTheWeightsThatAreTrained) {
  Workspace work;
  const auto session =
      Session::Open(work.Write("own", Workspace::Tested(Workspace::Solver(5), 100)), Plain());
  ASSERT_EQ(session->test_nets(), 1);
  Net& test = session->test_net(0);
  EXPECT_TRUE(test.weights().empty());
  const auto first = [](const Net& net) {
    for (const NetLayer& layer : net.layers()) {
      if (!layer.weights.empty()) return layer.weights[0]->data();
    }
    return static_cast<float*>(nullptr);
  };
  EXPECT_EQ(first(test), first(session->net()));
  test.Forward();
  EXPECT_CONTAINS(ErrorOf([&] { session->test_net(1); }), "has 1 test nets");
}

TEST(Session, CallsBackBetweenGradientsAndUpdate) {
  Workspace work;
  const auto session = Session::Open(work.Write("own", Workspace::Solver(5)), Plain());
  int calls = 0;
  const Floats before(session->weights().begin(), session->weights().end());
  session->OnGradients([&] {
    ++calls;
    EXPECT_EQ(Floats(session->weights().begin(), session->weights().end()), before);
  });
  session->Step();
  EXPECT_EQ(calls, 1);
  EXPECT_NE(Floats(session->weights().begin(), session->weights().end()), before);
  session->OnGradients({});
  session->Step();
  EXPECT_EQ(calls, 1);
}

TEST(Session, GoesOnAfterMaxIterIfItIsTold) {
  Workspace work;
  SessionOptions options;
  options.past_max_iter = true;
  const auto session = Session::Open(work.Write("own", Workspace::Solver(2)), options);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(session->Step());
  EXPECT_EQ(session->iteration(), 4);
}

TEST(Session, RestoresASnapshot) {
  Workspace work;
  const auto whole = Session::Open(work.Write("whole", Workspace::Solver(6)));
  for (int i = 0; i < 3; ++i) whole->Step();
  const std::string state = whole->Snapshot();
  while (whole->Step()) {
  }
  const auto restored = Session::Open(work.Write("own", Workspace::Solver(6)));
  restored->Restore(state);
  EXPECT_EQ(restored->iteration(), 3);
  while (restored->Step()) {
  }
  EXPECT_EQ(Floats(restored->weights().begin(), restored->weights().end()),
            Floats(whole->weights().begin(), whole->weights().end()));
  restored->Restore(state);  // after steps: the weights, history and iteration
  EXPECT_EQ(restored->iteration(), 3);
  EXPECT_TRUE(restored->Step());
  EXPECT_CONTAINS(ErrorOf([&] { restored->Restore(work / "none.solverstate"); }),
                  "none.solverstate");
}

}  // namespace
}  // namespace millrace::test
