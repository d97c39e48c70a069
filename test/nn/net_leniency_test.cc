// What Caffe accepts in a net beyond the usual: names that repeat or are missing, parameters of
// other types, weights in the description, a phase per layer; and what both refuse.
#include <algorithm>

#include "nn/net_text.h"
#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

const char kInput[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 } } }\n";

std::string Ip(const std::string& name, const std::string& bottom, const std::string& top,
               int outputs, const std::string& more = "") {
  return StrCat("layer { ", name.empty() ? "" : "name: '" + name + "' ",
                "type: 'InnerProduct' bottom: '", bottom, "' top: '", top, "' ", more,
                " inner_product_param { num_output: ", outputs,
                " weight_filler { type: 'gaussian' } } }\n");
}

Strings EntryNames(const BuiltNet& net) {
  Strings names;
  for (const ParamEntry& entry : net.layout().entries()) names.push_back(entry.name);
  return names;
}

BuiltNetOptions OtherSeed() {
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  options.seed = 99;
  return options;
}

// ---- Names ----

const std::string kTwice = kInput + Ip("a", "data", "x", 4) + Ip("a", "x", "y", 5) +
                           Ip("", "y", "z", 6) + "layer { type: 'ReLU' bottom: 'z' top: 'z' }\n" +
                           Ip("", "z", "w", 7);

TEST(NetNames, LayersWithOneNameOrNoneHaveParametersOfTheirOwn) {
  TestNet net(kTwice);
  EXPECT_EQ(EntryNames(*net),
            (Strings{"a/0", "a/1", "a#2/0", "a#2/1", "InnerProduct#1/0", "InnerProduct#1/1",
                     "InnerProduct#2/0", "InnerProduct#2/1"}));
  EXPECT_EQ(net.LayerNames(),
            (Strings{"data", "a", "a#2", "InnerProduct#1", "ReLU#1", "InnerProduct#2"}));
  FillRandom(net->FindBlob("data"), 1);
  net->Forward();
  EXPECT_EQ(net->FindBlob("w")->shape(), (Shape{2, 7}));
}

TEST(NetNames, ANameOfTheFileIsNeverGivenToAnotherLayer) {
  TestNet net(kInput + Ip("a", "data", "x", 4) + Ip("a", "x", "y", 4) + Ip("a#2", "y", "z", 4) +
              Ip("a", "z", "w", 4));
  EXPECT_EQ(net.LayerNames(), (Strings{"data", "a", "a#3", "a#2", "a#4"}));
}

TEST(NetNames, AModelHasTheNamesOfTheFileAndLoadsLayerByLayer) {
  TestNet net(kTwice), other(kTwice, OtherSeed());
  caffe::NetParameter model;
  other->ToProto(&model, false);
  EXPECT_EQ(model.layer(1).name(), "a");
  EXPECT_EQ(model.layer(2).name(), "a");
  EXPECT_EQ(model.layer(3).name(), "");
  EXPECT_EQ(net->CopyWeightsFrom(model, "model"), 4);
  for (const std::string& name : EntryNames(*net)) {
    EXPECT_EQ(net.Weights(name), other.Weights(name)) << name;
  }
}

TEST(NetNames, ALayerOfAModelGoesToTheFirstLayerWithItsName) {
  TestNet net(kInput + Ip("a", "data", "x", 3) + Ip("a", "x", "y", 3));
  TestNet one(kInput + Ip("a", "data", "x", 3), OtherSeed());
  caffe::NetParameter model;
  one->ToProto(&model, false);
  const std::vector<float> second = net.Weights("a#2/0");
  EXPECT_EQ(net->CopyWeightsFrom(model, "model"), 1);
  EXPECT_EQ(net.Weights("a/0"), one.Weights("a/0"));
  EXPECT_EQ(net.Weights("a#2/0"), second);
}

TEST(NetNames, OfSeveralLayersOfAModelTheLastGoesToTheOnlyOneOfTheNet) {
  TestNet net(kInput + Ip("a", "data", "x", 3));
  TestNet two(kInput + Ip("a", "data", "x", 3) + Ip("a", "x", "y", 3), OtherSeed());
  caffe::NetParameter model;
  two->ToProto(&model, false);
  EXPECT_EQ(net->CopyWeightsFrom(model, "model"), 2);
  EXPECT_EQ(net.Weights("a/0"), two.Weights("a#2/0"));
}

TEST(NetNames, LayersWithoutWeightsDoNotCountWhenWeightsAreLoaded) {
  const std::string relu = "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'r' }\n";
  TestNet net(kInput + relu + Ip("a", "r", "x", 3));
  TestNet one(kInput + Ip("a", "data", "x", 3), OtherSeed());
  caffe::NetParameter model;
  one->ToProto(&model, false);
  EXPECT_EQ(net->CopyWeightsFrom(model, "model"), 1);
  EXPECT_EQ(net.Weights("a#2/0"), one.Weights("a/0"));
  TestNet without(kInput + relu);
  EXPECT_EQ(
      ErrorOf([&] { without->CopyWeightsFrom(model, "model"); }),
      "model: layer 'a': holds 2 blobs, expected 0; to train a layer anew, rename it in the net");
}

TEST(NetNames, ATestNetSharesTheWeightsOfLayersWithOneNameInTheirOrder) {
  TestNet train(kTwice);
  TestNet test(kInput + Ip("a", "data", "x", 4) + Ip("a", "x", "y", 5) + Ip("", "y", "z", 6));
  test->BindWeights(train->layout(), train.weights());
  for (const char* name : {"a", "a#2", "InnerProduct#1"}) {
    EXPECT_EQ(test->FindLayer(name)->params()[0].blob->data(),
              train->FindLayer(name)->params()[0].blob->data());
  }
}

// ---- Parameters of other types ----

TEST(NetFields, OfAnotherTypeAreIgnoredWithANotice) {
  TestNet net(kInput + std::string("layer { name: 'l' type: 'ReLU' bottom: 'data' top: 'l'\n"
                                   "  pooling_param { } transform_param { scale: 2 } }"));
  EXPECT_EQ(
      net->notices(),
      (Strings{"net.prototxt:3: layer 'l': transform_param: ignored, a layer of type ReLU has "
               "no such parameters",
               "net.prototxt:3: layer 'l': pooling_param: ignored, a layer of type ReLU has "
               "no such parameters"}));
  EXPECT_EQ(TestNet(kInput)->notices(), Strings());
}

// ---- Types ----

TEST(NetTypes, AllThatAreMissingAreNamedInOneLine) {
  const std::string error = ErrorOf([] {
    TestNet net(kInput + std::string("layer { name: 'l' type: 'Foo' bottom: 'data' top: 'l' }\n"
                                     "layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' }\n"
                                     "layer { name: 'p' type: 'Python' bottom: 'r' top: 'p' }\n"
                                     "layer { type: 'Bar'\n bottom: 'p' top: 'q' }\n"));
  });
  EXPECT_EQ(
      error.find("net.prototxt:2: layer 'l': type: there is no layer type 'Foo' on cpu; also "
                 "net.prototxt:4: layer 'p': type: a layer in Python, expected the Python module "
                 "millrace: --plugins=python; also net.prototxt:5: layer '': type: there "
                 "is no layer type 'Bar' on cpu; known: "),
      0u)
      << error;
}

TEST(NetTypes, OfOtherPhasesAreNotAsked) {
  const std::string text =
      kInput +
      std::string(
          "layer { name: 'l' type: 'Foo' bottom: 'data' top: 'l' include { phase: TEST } }");
  EXPECT_NO_THROW(TestNet(text, InPhase(caffe::TRAIN)));
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(text, InPhase(caffe::TEST)); }), "'Foo'");
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  const auto check = [&](caffe::Phase phase) {
    caffe::NetState state;
    state.set_phase(phase);
    CheckLayerTypes(param, source, state);
  };
  EXPECT_NO_THROW(check(caffe::TRAIN));
  EXPECT_CONTAINS(ErrorOf([&] { check(caffe::TEST); }),
                  "net.prototxt:2: layer 'l': type: there is no layer type");
}

TEST(NetTypes, AreNamedTogetherWithFieldsThatNoMessageHas) {
  caffe::NetParameter net;
  SourceMap source;
  const std::string text =
      kInput + std::string(
                   "layer { name: 'l' type: 'Foo' bottom: 'data' top: 'l'\n"
                   "  foo_param { size: 3 more { x: 'y' } } }\n"
                   "layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' relu_param {\n"
                   "  slpoe: 1 } }\n"
                   "layers { }");
  EXPECT_EQ(ErrorOf([&] { ParseNet(text, "net.prototxt", &net, &source); }),
            "net.prototxt:3: Message type \"caffe.LayerParameter\" has no field named "
            "\"foo_param\"; also net.prototxt:5: Message type \"caffe.ReLUParameter\" has no field "
            "named \"slpoe\"");
  const std::string one_format = text.substr(0, text.find("layers { }"));
  net.Clear();
  EXPECT_CONTAINS(ErrorOf([&] { ParseNet(one_format, "net.prototxt", &net, &source); }),
                  "named \"slpoe\"; also net.prototxt:2: layer 'l': type: there is no layer type "
                  "'Foo' on cpu");
}

// ---- Tops that the description does not name ----

TEST(NetTops, WithoutANameAreNoOutputsAndHaveNone) {
  const std::string text =
      kInput +
      std::string(
          "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 2 } "
          "} }\n") +
      Ip("a", "data", "loss_top_0", 3) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'loss_top_0' bottom: 'label' }\n"
      "layer { name: 'again' type: 'HingeLoss' bottom: 'loss_top_0' bottom: 'label' top: 'named' "
      "}\n";
  TestNet net(text);
  ASSERT_EQ(net->outputs().size(), 1u);
  EXPECT_EQ(net->outputs()[0].name, "named");
  EXPECT_EQ(net->FindBlob("(automatic)"), nullptr);
  FillRandom(net->FindBlob("data"), 1);
  // The loss counts all the same.
  EXPECT_GT(net.Pass(), net->OutputValues()[0]);
  TestNet named(text.substr(0, text.find("layer { name: 'again'")));
  EXPECT_TRUE(named->outputs().empty());
}

// ---- The description's own weights, phases and gradients ----

TEST(NetBlobs, OfTheDescriptionAreTheInitialWeights) {
  TestNet net(kInput + Ip("a", "data", "x", 2,
                          "blobs { shape { dim: 2 dim: 3 } data: [1, 2, 3, 4, 5, 6] } "
                          "blobs { num: 1 channels: 1 height: 1 width: 2 data: 7 data: 8 }"));
  EXPECT_EQ(net.Weights("a/0"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(net.Weights("a/1"), (std::vector<float>{7, 8}));
  EXPECT_CONTAINS(ErrorOf([] {
                    TestNet net(kInput + Ip("a", "data", "x", 2,
                                            "blobs { data: 1 data: 2 } blobs { data: 1 }"));
                  }),
                  "parameter 'a/0': stored with shape 2 (2), expected 2 3 (6)");
}

TEST(NetPhase, ALayerMayStateItsOwn) {
  const auto net = [](const std::string& phase) {
    return StrCat(
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 100 } } "
        "}\nlayer { name: 'd' type: 'Dropout' bottom: 'data' top: 'd' ",
        phase, " }");
  };
  const auto drops = [&](const std::string& phase, caffe::Phase of_net) {
    TestNet dropout(net(phase), InPhase(of_net));
    std::fill_n(dropout->FindBlob("data")->data(), 100, 1.0f);
    dropout->Forward();
    const std::vector<float> values = dropout->OutputValues();
    return std::count(values.begin(), values.end(), 1.0f) < 100;
  };
  EXPECT_TRUE(drops("", caffe::TRAIN));
  EXPECT_FALSE(drops("", caffe::TEST));
  EXPECT_FALSE(drops("phase: TEST", caffe::TRAIN));
  EXPECT_TRUE(drops("phase: TRAIN", caffe::TEST));
}

const char kLabel[] =
    "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 2 } } }\n";

TEST(NetLossWeights, CountTheTopsThatANetAdds) {
  const std::string loss =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' ";
  TestNet net(kInput + std::string(kLabel) + Ip("a", "data", "x", 3) + loss + "loss_weight: 0.5 }");
  TestNet whole(kInput + std::string(kLabel) + Ip("a", "data", "x", 3) + loss + "}");
  FillRandom(net->FindBlob("data"), 1), FillRandom(whole->FindBlob("data"), 1);
  EXPECT_EQ(net.Pass(), 0.5f * whole.Pass());
  EXPECT_CONTAINS(ErrorOf([&] {
                    TestNet bad(kInput + std::string(kLabel) + Ip("a", "data", "x", 3) + loss +
                                "loss_weight: 1 loss_weight: 1 }");
                  }),
                  "loss_weight: 2 given, expected 1");
}

TEST(NetPropagateDown, ToLabelsIsAllowedWhereNoGradientFlows) {
  const std::string text =
      kInput + std::string(kLabel) + Ip("a", "data", "x", 3) +
      "layer { name: 'l' type: 'Accuracy' bottom: 'x' bottom: 'label' top: 'l' "
      "propagate_down: true propagate_down: true }\n";
  TestNet net(text);
  EXPECT_FALSE(net.NodeOf("l").need_backward);
}

TEST(NetPropagateDown, ForceBackwardPrevails) {
  TestNet net("force_backward: true\n" + std::string(kInput) +
              Ip("a", "data", "x", 3, "propagate_down: false loss_weight: 1"));
  EXPECT_TRUE(net.NodeOf("a").propagate_down[0]);
}

TEST(NetName, MayBeMissing) { EXPECT_EQ(TestNet(kInput)->name(), ""); }

}  // namespace
}  // namespace millrace::test
