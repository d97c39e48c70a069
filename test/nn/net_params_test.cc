// Parameters of a net: sharing, freezing, loading, saving, and binding to another net's array.
#include <numeric>

#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const char kNetParamsInput[] =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' "
    "input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }\n";
const char kLoss[] =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' }\n";

std::string NetParamsIp(const std::string& name, const std::string& bottom, const std::string& top,
                        int outputs, const std::string& more = "") {
  return StrCat(
      "layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '", top, "' ",
      more, " inner_product_param { num_output: ", outputs,
      " weight_filler { type: 'xavier' } bias_filler { type: 'constant' value: 0.1 } } }\n");
}

void SetInputs(TestNet* net) {
  FillRandom((*net)->FindBlob("data"), 1);
  FillRandom((*net)->FindBlob("label"), 2, 3);
}

std::vector<float> Sum(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
}

// Two successive layers of the same shape, with a shared array or separate ones.
std::string TwoLayers(const std::string& first, const std::string& second) {
  return kNetParamsInput + NetParamsIp("a", "data", "a", 6, first) +
         NetParamsIp("b", "a", "b", 6, second) + NetParamsIp("c", "b", "last", 3) + kLoss;
}

TEST(NetSharing, SharedParametersAreOneArrayAndTheirGradientsAddUp) {
  const std::string shared = "param { name: 'w' } param { name: 'bias' }";
  TestNet one(TwoLayers(shared, shared)), each(TwoLayers("", ""));
  EXPECT_EQ(one->params().size(), 4u);  // w, bias, and the two of c
  EXPECT_EQ(one->params()[0].display_name, "w");
  EXPECT_EQ(one->FindLayer("a")->params()[0].blob->data(),
            one->FindLayer("b")->params()[0].blob->data());
  // Copies the same values to both layers of the net without sharing.
  for (const char* layer : {"a", "b", "c"}) {
    for (int i : {0, 1}) {
      const Blob& from = *one->FindLayer(layer)->params()[i].blob;
      std::copy_n(from.data(), from.count(), each->FindLayer(layer)->params()[i].blob->data());
    }
  }
  SetInputs(&one), SetInputs(&each);
  EXPECT_EQ(one.Pass(), each.Pass());
  ExpectNear(one.Gradient("a/0"), Sum(each.Gradient("a/0"), each.Gradient("b/0")), 1e-6f);
  ExpectNear(one.Gradient("a/1"), Sum(each.Gradient("a/1"), each.Gradient("b/1")), 1e-6f);
  ExpectNear(one.Gradient("c/0"), each.Gradient("c/0"), 1e-7f);
}

TEST(NetSharing, StrictSharingRefusesAnotherShapeAndPermissiveTheSameCount) {
  const std::string strict = kNetParamsInput +
                             NetParamsIp("a", "data", "a", 2, "param { name: 'w' }") +
                             NetParamsIp("b", "a", "last", 6, "param { name: 'w' }");
  EXPECT_EQ(ErrorOf([&] { TestNet net(strict); }),
            "net.prototxt:3: layer 'b': param[0].name: 'w' is shared with shape 2 6 (12), but "
            "this layer needs 6 2 (12)");
  const std::string mode = "param { name: 'w' share_mode: PERMISSIVE }";
  TestNet net(kNetParamsInput + NetParamsIp("a", "data", "a", 2, mode) +
              NetParamsIp("b", "a", "last", 6, mode));
  EXPECT_EQ(net->params().size(), 3u);
  const std::string other = kNetParamsInput + NetParamsIp("a", "data", "a", 2, mode) +
                            NetParamsIp("b", "a", "last", 5, mode);
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(other); }), "param[0].name: 'w' is shared with shape");
}

TEST(NetSharing, MultipliersThatDisagreeAreRefused) {
  const std::string text =
      TwoLayers("param { name: 'w' lr_mult: 1 }", "param { name: 'w' lr_mult: 2 }");
  EXPECT_EQ(ErrorOf([&] { TestNet net(text); }),
            "net.prototxt:3: layer 'b': param[0].lr_mult: 2 given, but the parameter 'w' that it "
            "shares has 1");
  const std::string decay =
      TwoLayers("param { name: 'w' decay_mult: 0 }", "param { name: 'w' decay_mult: 1 }");
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(decay); }), "param[0].decay_mult: 1 given");
  // An absent multiplier is not a conflict.
  TestNet fine(TwoLayers("param { name: 'w' lr_mult: 3 }", "param { name: 'w' }"));
  EXPECT_EQ(fine->params()[0].lr_mult, 3);
}

// Three successive layers of the same shape that share 'w'.
std::string ThreeSharers(const std::string& first, const std::string& second,
                         const std::string& third) {
  const auto share = [](const std::string& more) { return "param { name: 'w' " + more + " }"; };
  return kNetParamsInput + NetParamsIp("a", "data", "a", 6, share(first)) +
         NetParamsIp("b", "a", "b", 6, share(second)) +
         NetParamsIp("c", "b", "c", 6, share(third)) + NetParamsIp("d", "c", "last", 3) + kLoss;
}

TEST(NetSharing, MultipliersThatOnlyASharerStatesAreAdopted) {
  TestNet second(ThreeSharers("", "lr_mult: 3 decay_mult: 0.5", ""));
  EXPECT_EQ(second->params()[0].lr_mult, 3);
  EXPECT_EQ(second->params()[0].decay_mult, 0.5f);
  TestNet third(ThreeSharers("", "", "decay_mult: 0"));
  EXPECT_EQ(third->params()[0].lr_mult, 1);
  EXPECT_EQ(third->params()[0].decay_mult, 0);
  // Each multiplier comes from the first layer that states it.
  TestNet mixed(ThreeSharers("decay_mult: 2", "lr_mult: 4", "lr_mult: 4 decay_mult: 2"));
  EXPECT_EQ(mixed->params()[0].lr_mult, 4);
  EXPECT_EQ(mixed->params()[0].decay_mult, 2);
  // A parameter that is not shared keeps its own multiplier.
  EXPECT_EQ(mixed->params()[1].lr_mult, 1);
}

TEST(NetSharing, ASharerThatFreezesTheParameterFreezesItForAll) {
  TestNet net(ThreeSharers("", "", "lr_mult: 0"));
  SetInputs(&net);
  net.Pass();
  EXPECT_EQ(net->params()[0].lr_mult, 0);
  EXPECT_EQ(net.Gradient("a/0"), std::vector<float>(36, 0.0f));
}

TEST(NetSharing, SharersThatDisagreeAreRefusedAtTheLaterOne) {
  EXPECT_EQ(ErrorOf([] { TestNet net(ThreeSharers("", "lr_mult: 2", "lr_mult: 3")); }),
            "net.prototxt:4: layer 'c': param[0].lr_mult: 3 given, but the parameter 'w' that it "
            "shares has 2");
  EXPECT_EQ(ErrorOf([] { TestNet net(ThreeSharers("", "decay_mult: 0", "decay_mult: 1")); }),
            "net.prototxt:4: layer 'c': param[0].decay_mult: 1 given, but the parameter 'w' that "
            "it shares has 0");
}

TEST(NetFreezing, NoGradientIsComputedForOrBelowFrozenLayers) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  TestNet net(TwoLayers(frozen, frozen)), live(TwoLayers("", ""));
  SetInputs(&net), SetInputs(&live);
  EXPECT_EQ(net.Pass(), live.Pass());
  EXPECT_FALSE(net.NodeOf("a").need_backward);
  EXPECT_FALSE(net.NodeOf("b").need_backward);
  EXPECT_FALSE(net.NodeOf("c").propagate_down[0]);
  EXPECT_EQ(net.Gradient("a/0"), std::vector<float>(36, 0.0f));
  EXPECT_EQ(net.Gradient("c/0"), live.Gradient("c/0"));
}

TEST(NetFreezing, AFrozenLayerLetsTheGradientThroughToLayersBelow) {
  TestNet net(TwoLayers("", "param { lr_mult: 0 } param { lr_mult: 0 }"));
  TestNet live(TwoLayers("", ""));
  SetInputs(&net), SetInputs(&live);
  net.Pass(), live.Pass();
  EXPECT_EQ(net.Gradient("a/0"), live.Gradient("a/0"));
  EXPECT_EQ(net.Gradient("b/0"), std::vector<float>(36, 0.0f));
}

TEST(NetFreezing, PropagateDownFalseStopsTheGradient) {
  TestNet net(TwoLayers("", "propagate_down: false"));
  TestNet live(TwoLayers("", ""));
  SetInputs(&net), SetInputs(&live);
  net.Pass(), live.Pass();
  EXPECT_EQ(net.Gradient("a/0"), std::vector<float>(36, 0.0f));
  EXPECT_EQ(net.Gradient("b/0"), live.Gradient("b/0"));
}

TEST(NetFreezing, PropagateDownToLabelsIsRefused) {
  const std::string text =
      kNetParamsInput + NetParamsIp("ip", "data", "last", 3) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' "
      "bottom: 'label' top: 'loss' propagate_down: true propagate_down: true }";
  EXPECT_CONTAINS(ErrorOf([&] { TestNet net(text); }),
                  "net.prototxt:3: layer 'loss': propagate_down[1]: no gradient flows to");
}

TEST(NetFreezing, ForceBackwardBringsTheGradientToTheInputs) {
  const std::string text = kNetParamsInput + NetParamsIp("c", "data", "last", 3) + kLoss;
  TestNet plain(text), forced("force_backward: true\n" + text);
  SetInputs(&forced);
  forced.Pass();
  EXPECT_FALSE(plain.NodeOf("c").propagate_down[0]);
  const BuiltNet::Node& node = forced.NodeOf("c");
  ASSERT_TRUE(node.propagate_down[0]);
  double size = 0;
  for (int64_t i = 0; i < node.bottom[0]->count(); ++i) size += std::abs(node.bottom[0]->diff()[i]);
  EXPECT_GT(size, 0.01);
}

TEST(NetLossWeight, WeighsValueAndGradient) {
  const auto text = [](const std::string& weight) {
    return kNetParamsInput + NetParamsIp("c", "data", "last", 3) +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' "
           "top: 'loss' " +
           weight + " }";
  };
  TestNet one(text("")), half(text("loss_weight: 0.5")), none(text("loss_weight: 0"));
  SetInputs(&one), SetInputs(&half), SetInputs(&none);
  EXPECT_EQ(half.Pass(), 0.5f * one.Pass());
  std::vector<float> halved = one.Gradient("c/0");
  for (float& value : halved) value *= 0.5f;
  ExpectNear(half.Gradient("c/0"), halved, 1e-7f);
  EXPECT_EQ(none.Pass(), 0);
  EXPECT_FALSE(none.NodeOf("c").need_backward);
  EXPECT_EQ(half->outputs()[0].loss_weight, 0.5f);
}

TEST(NetLossWeight, CountsABlobInTheObjectiveThatALayerConsumesToo) {
  // objective = loss + 0.25 * sum(a): the weights of c get only the gradient of the loss; each bias
  // of a gets that gradient plus 0.25 per example.
  const auto text = [](const std::string& weight) {
    return kNetParamsInput + NetParamsIp("a", "data", "a", 5, weight) +
           NetParamsIp("c", "a", "last", 3) + kLoss;
  };
  TestNet with(text("loss_weight: 0.25")), without(text(""));
  SetInputs(&with), SetInputs(&without);
  const float loss = without.Pass();
  const std::vector<float> a = Values(*without->FindBlob("a"));
  EXPECT_NEAR(with.Pass(), loss + 0.25f * std::accumulate(a.begin(), a.end(), 0.0f), 1e-5f);
  std::vector<float> expected = without.Gradient("a/1");
  for (float& value : expected) value += 0.25f * 4;
  ExpectNear(with.Gradient("a/1"), expected, 1e-5f);
  ExpectNear(with.Gradient("c/0"), without.Gradient("c/0"), 1e-6f);
}

TEST(NetBinding, ATestNetSharesWeightsByLayerNameAndFillsTheRestItself) {
  TestNet train(kNetParamsInput + NetParamsIp("a", "data", "a", 5) +
                NetParamsIp("b", "a", "last", 3) + kLoss);
  caffe::NetParameter param;
  ParseText(kNetParamsInput + NetParamsIp("b", "data", "b", 2) + NetParamsIp("a", "data", "a", 5),
            "net.prototxt", &param, nullptr);
  param.mutable_layer(1)->set_name("own");
  BuiltNet net(param, SourceMap(), InPhase(caffe::TEST));
  net.BindWeights(train->layout(), train.weights());
  EXPECT_EQ(net.FindLayer("a")->params()[0].blob->data(),
            train->FindLayer("a")->params()[0].blob->data());
  EXPECT_EQ(net.FindLayer("a")->params()[1].blob->data(),
            train->FindLayer("a")->params()[1].blob->data());
  EXPECT_EQ(Values(*net.FindLayer("own")->params()[1].blob), std::vector<float>(2, 0.1f));
}

TEST(NetBinding, AnotherShapeUnderTheSameNameIsRefused) {
  TestNet train(kNetParamsInput + NetParamsIp("a", "data", "a", 5));
  caffe::NetParameter param;
  ParseText(kNetParamsInput + NetParamsIp("a", "data", "a", 4), "net.prototxt", &param, nullptr);
  BuiltNet net(param, SourceMap(), InPhase(caffe::TEST));
  EXPECT_CONTAINS(ErrorOf([&] { net.BindWeights(train->layout(), train.weights()); }),
                  "parameter 'a/0' has shape 4 6 (24) in the test net '', but 5 6 (30)");
}

TEST(NetSaving, ToProtoAndCopyWeightsFromAreInverse) {
  const std::string text = TwoLayers("", "");
  TestNet saved(text);
  BuiltNetOptions other = InPhase(caffe::TRAIN);
  other.seed = 8;
  TestNet loaded(text, other);
  EXPECT_NE(loaded.Weights("a/0"), saved.Weights("a/0"));
  caffe::NetParameter proto;
  saved->ToProto(&proto, false);
  EXPECT_EQ(loaded->CopyWeightsFrom(proto, "model"), 3);
  for (const char* name : {"a/0", "a/1", "b/0", "b/1", "c/0", "c/1"}) {
    EXPECT_EQ(loaded.Weights(name), saved.Weights(name));
  }
  caffe::NetParameter again;
  loaded->ToProto(&again, false);
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
}

TEST(NetSaving, WritesTheLayersWithShapesAndOnRequestGradients) {
  TestNet net(kNetParamsInput + NetParamsIp("c", "data", "last", 3) + kLoss);
  SetInputs(&net);
  net.Pass();
  caffe::NetParameter proto;
  net->ToProto(&proto, true);
  ASSERT_EQ(proto.layer_size(), 3);
  const caffe::LayerParameter& layer = proto.layer(1);
  EXPECT_EQ(layer.name(), "c");
  EXPECT_EQ(layer.inner_product_param().num_output(), 3u);
  ASSERT_EQ(layer.blobs_size(), 2);
  EXPECT_EQ(ShapeOf(layer.blobs(0)), Shape({3, 6}));
  EXPECT_EQ(std::vector<float>(layer.blobs(0).diff().begin(), layer.blobs(0).diff().end()),
            net.Gradient("c/0"));
}

TEST(NetLoading, LayersThatOnlyOneSideHasAreLeftAlone) {
  TestNet net(kNetParamsInput + NetParamsIp("a", "data", "a", 5) +
              NetParamsIp("new", "a", "last", 3));
  TestNet other(
      kNetParamsInput + NetParamsIp("a", "data", "a", 5) + NetParamsIp("old", "a", "last", 2), [] {
        BuiltNetOptions o = InPhase(caffe::TRAIN);
        o.seed = 9;
        return o;
      }());
  const std::vector<float> untouched = net.Weights("new/0");
  caffe::NetParameter proto;
  other->ToProto(&proto, false);
  EXPECT_EQ(net->CopyWeightsFrom(proto, "model"), 1);
  EXPECT_EQ(net.Weights("a/0"), other.Weights("a/0"));
  EXPECT_EQ(net.Weights("new/0"), untouched);
}

TEST(NetLoading, LayersThatGotNoSavedWeightsAreKnown) {
  const std::string shared = "param { name: 'w' } param { name: 'bias' }";
  TestNet net(TwoLayers(shared, shared));
  using Names = std::vector<std::string>;
  const Names all = {"'a' (InnerProduct)", "'b' (InnerProduct)", "'c' (InnerProduct)"};
  EXPECT_EQ(net->LayersWithoutSavedWeights(), all);
  TestNet first(kNetParamsInput + NetParamsIp("a", "data", "a", 6)),
      last(kNetParamsInput + NetParamsIp("c", "data", "last", 3));
  caffe::NetParameter proto;
  first->ToProto(&proto, false);
  net->CopyWeightsFrom(proto, "first");
  // b shares the arrays of a.
  EXPECT_EQ(net->LayersWithoutSavedWeights(), Names({"'c' (InnerProduct)"}));
  last->ToProto(&proto, false);
  net->CopyWeightsFrom(proto, "last");
  EXPECT_EQ(net->LayersWithoutSavedWeights(), Names());
  net->FillWeights();
  EXPECT_EQ(net->LayersWithoutSavedWeights(), all);
}

TEST(NetWithoutLoss, HasABackwardPassOnRequest) {
  const std::string text =
      kNetParamsInput + NetParamsIp("a", "data", "a", 6) + NetParamsIp("b", "a", "last", 3);
  TestNet plain(text);
  EXPECT_FALSE(plain.NodeOf("a").need_backward);
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  options.backward_without_loss = true;
  TestNet net(text, options);
  SetInputs(&net);
  net.Pass();
  EXPECT_TRUE(net.NodeOf("a").need_backward);
  EXPECT_FALSE(net.NodeOf("a").propagate_down[0]);
  EXPECT_TRUE(net.NodeOf("b").propagate_down[0]);
  // Gradient of the sum of the outputs over 4 examples.
  EXPECT_EQ(net.Gradient("b/1"), std::vector<float>(3, 4.0f));
  // A net with a loss has the pass that it has in training.
  const std::string with_loss = text + NetParamsIp("side", "data", "side", 2) + kLoss;
  TestNet timed(with_loss, options), trained(with_loss);
  for (const char* layer : {"a", "b", "side"}) {
    EXPECT_EQ(timed.NodeOf(layer).need_backward, trained.NodeOf(layer).need_backward) << layer;
  }
  SetInputs(&timed), SetInputs(&trained);
  EXPECT_EQ(timed.Pass(), trained.Pass());
  EXPECT_EQ(timed.Gradient("a/0"), trained.Gradient("a/0"));
}

// Where a layer has no backward pass, as the one that ranks classes, the layers below it have one.
TEST(NetWithoutLoss, HasABackwardPassBelowLayersThatHaveNone) {
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  options.backward_without_loss = true;
  TestNet net(kNetParamsInput + NetParamsIp("a", "data", "a", 3) +
                  "layer { name: 'rank' type: 'ArgMax' bottom: 'a' top: 'rank' }",
              options);
  SetInputs(&net);
  net.Pass();
  EXPECT_TRUE(net.NodeOf("a").need_backward);
  EXPECT_FALSE(net.NodeOf("rank").need_backward);
  EXPECT_EQ(net.Gradient("a/1"), std::vector<float>(3, 4.0f));
}

TEST(NetLoading, TheFormatBefore2014IsReadWithItsFourAxisShapes) {
  TestNet net(kNetParamsInput + NetParamsIp("a", "data", "a", 2));
  caffe::NetParameter old;
  caffe::V1LayerParameter* layer = old.add_layers();
  layer->set_name("a");
  for (int count : {12, 2}) {
    caffe::BlobProto* blob = layer->add_blobs();
    blob->set_num(1), blob->set_channels(1);
    blob->set_height(count / 2 == 6 ? 2 : 1), blob->set_width(count == 12 ? 6 : 2);
    for (int i = 0; i < count; ++i) blob->add_data(static_cast<float>(i));
  }
  EXPECT_EQ(net->CopyWeightsFrom(old, "old.caffemodel"), 1);
  EXPECT_EQ(net.Weights("a/0")[11], 11);
  EXPECT_EQ(net.Weights("a/1"), (std::vector<float>{0, 1}));
}

TEST(NetLoading, NumbersAndShapesThatDifferNameFileAndLayer) {
  TestNet net(kNetParamsInput + NetParamsIp("a", "data", "a", 2));
  TestNet other(kNetParamsInput + NetParamsIp("a", "data", "a", 3));
  caffe::NetParameter proto;
  other->ToProto(&proto, false);
  const std::string rename = "; to train a layer anew, rename it in the net";
  EXPECT_EQ(
      ErrorOf([&] { net->CopyWeightsFrom(proto, "m.caffemodel"); }),
      "m.caffemodel: layer 'a' blob 0: stored with shape 3 6 (18), expected 2 6 (12)" + rename);
  proto.mutable_layer(1)->mutable_blobs()->RemoveLast();
  EXPECT_EQ(ErrorOf([&] { net->CopyWeightsFrom(proto, "m.caffemodel"); }),
            "m.caffemodel: layer 'a': holds 1 blobs, expected 2" + rename);
}

TEST(NetLoading, ATestNetLoadsWhatItsTrainNetDoesNotHave) {
  TestNet train(kNetParamsInput + NetParamsIp("a", "data", "a", 2));
  const std::string text =
      kNetParamsInput + NetParamsIp("a", "data", "a", 2) + NetParamsIp("own", "a", "b", 3);
  caffe::NetParameter param, saved;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  BuiltNet test(param, source, InPhase(caffe::TEST));
  test.BindWeights(train->layout(), train.weights());
  TestNet(text)->ToProto(&saved, false);
  for (caffe::LayerParameter& layer : *saved.mutable_layer()) {
    for (caffe::BlobProto& blob : *layer.mutable_blobs()) blob.set_data(0, 7);
  }
  const std::vector<float> shared = train.Weights("a/0");
  EXPECT_EQ(test.CopyOwnWeightsFrom(saved, "m.caffemodel"), 1);
  EXPECT_EQ(train.Weights("a/0"), shared);
  EXPECT_EQ(Values(*test.FindLayer("own")->params()[0].blob)[0], 7);
  // They stay where the net gets other weights to share.
  std::vector<float> others(train->layout().size(), 5);
  test.BindWeights(train->layout(), others.data());
  EXPECT_EQ(Values(*test.FindLayer("own")->params()[0].blob)[0], 7);
  EXPECT_EQ(Values(*test.FindLayer("a")->params()[0].blob)[0], 5);
}

}  // namespace
}  // namespace millrace::test
