// Sessions whose nets get plain_blobs with their first use: what programs see is what a session
// with plain_blobs from the beginning shows.
#include <algorithm>
#include <cmath>

#include "millrace/session.h"
#include "proto/parse.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

// The train net of a file, on made-up images of 32 x 32 (28 x 28 in one channel for LeNet).
caffe::NetParameter OnNoise(const std::string& file, int channels, int side) {
  caffe::NetParameter net;
  SourceMap source;
  LoadText(file, &net, &source);
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "Data") continue;
    layer.set_type("DummyData");
    layer.clear_data_param();
    layer.clear_transform_param();
    caffe::DummyDataParameter* const dummy = layer.mutable_dummy_data_param();
    for (const Shape& shape : {Shape{4, channels, side, side}, Shape{4}}) {
      caffe::BlobShape* const to = dummy->add_shape();
      for (const int64_t dim : shape) to->add_dim(dim);
    }
    caffe::FillerParameter* filler = dummy->add_data_filler();
    filler->set_type("uniform");
    filler->set_min(-1);
    filler->set_max(1);
    filler = dummy->add_data_filler();
    filler->set_type("constant");
    filler->set_value(3);
  }
  return net;
}

// An in-place layer behind each kind of blob: one that a convolution writes, one in plain order,
// and one that others share.
caffe::NetParameter InPlace() {
  caffe::NetParameter net;
  SourceMap source;
  ParseText(R"(name: 'in-place'
layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
  shape { dim: 4 dim: 3 dim: 12 dim: 12 } shape { dim: 4 }
  data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param {
  num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }
layer { name: 'scale' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }
layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' relu_param { negative_slope: 0.1 } }
layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param {
  num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 'sum' }
layer { name: 'norm' type: 'LRN' bottom: 'sum' top: 'norm' }
layer { name: 'pool' type: 'Pooling' bottom: 'norm' top: 'pool' pooling_param { kernel_size: 2
  stride: 2 } }
layer { name: 'flat' type: 'Flatten' bottom: 'pool' top: 'flat' }
layer { name: 'tanh' type: 'TanH' bottom: 'flat' top: 'flat' }
layer { name: 'drop' type: 'Dropout' bottom: 'flat' top: 'flat' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'flat' top: 'ip' inner_product_param {
  num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'relu2' type: 'ReLU' bottom: 'ip' top: 'ip' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'loss' })",
            "in_place", &net, &source);
  return net;
}

// Plain blobs from the beginning, on their first use, or never.
enum class Begin { kPlain, kOnUse, kNever };

std::unique_ptr<Session> Open(const caffe::NetParameter& net, Begin begin) {
  caffe::SolverParameter solver;
  *solver.mutable_train_net_param() = net;
  solver.set_base_lr(0.001);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9);
  solver.set_max_iter(100);
  solver.set_random_seed(3);
  SessionOptions options;
  options.plain_blobs = begin == Begin::kPlain;
  options.plain_blobs_on_use = begin == Begin::kOnUse;
  return Session::OpenText(solver.DebugString(), "solver.prototxt", options);
}

// By their norm: a value near 0 may lie on the other side of a ReLU.
void ExpectNear(const float* found, const float* expected, int64_t count, const std::string& what) {
  double norm = 0, difference = 0;
  for (int64_t i = 0; i < count; ++i) {
    norm += std::pow(expected[i], 2);
    difference += std::pow(found[i] - expected[i], 2);
  }
  EXPECT_LE(std::sqrt(difference), 1e-3 * std::sqrt(norm) + 1e-6) << what;
}

void ExpectSameBlobs(Net& found, Net& expected) {
  ASSERT_GT(expected.blobs().size(), 3u);
  for (const NetBlob& each : expected.blobs()) {
    const Blob& one = found.blob(each.name);
    const Blob& other = expected.blob(each.name);
    ASSERT_EQ(one.shape(), other.shape()) << each.name;
    ASSERT_EQ(one.layout(), Layout::kPlain) << each.name;
    ExpectNear(one.data(), other.data(), one.count(), each.name);
    ASSERT_EQ(one.has_diff(), other.has_diff()) << each.name;
    if (other.has_diff()) ExpectNear(one.diff(), other.diff(), one.count(), each.name + " diff");
  }
  const std::vector<NetLayer> layers = found.layers(), theirs = expected.layers();
  ASSERT_EQ(layers.size(), theirs.size());
  for (size_t n = 0; n < layers.size(); ++n) {
    EXPECT_EQ(layers[n].name, theirs[n].name);
    EXPECT_EQ(layers[n].tops, theirs[n].tops);
    ASSERT_EQ(layers[n].weights.size(), theirs[n].weights.size());
    for (size_t i = 0; i < layers[n].weights.size(); ++i) {
      const Blob &one = *layers[n].weights[i], &other = *theirs[n].weights[i];
      ExpectNear(one.data(), other.data(), one.count(), layers[n].name);
      ExpectNear(one.diff(), other.diff(), one.count(), layers[n].name + " diff");
    }
  }
}

class PlainBlobsOfNets : public testing::TestWithParam<const char*> {
 protected:
  static caffe::NetParameter NetOf(const std::string& name) {
    if (name == "lenet") return OnNoise("examples/mnist/lenet_train_test.prototxt", 1, 28);
    if (name == "in_place") return InPlace();
    return OnNoise("examples/cifar10/" + name + "_train_test.prototxt", 3, 32);
  }
  const caffe::NetParameter net_ = NetOf(GetParam());
};

TEST_P(PlainBlobsOfNets, HoldWhatTheStepsBeforeHaveComputed) {
  const auto on_use = Open(net_, Begin::kOnUse), never = Open(net_, Begin::kNever);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(on_use->Step()->loss, never->Step()->loss);
  for (const NetBlob& each : never->net().blobs()) {
    const Blob& blob = on_use->net().blob(each.name);
    ASSERT_EQ(blob.layout(), Layout::kPlain) << each.name;
    ASSERT_EQ(blob.shape(), each.shape) << each.name;
    EXPECT_EQ(Floats(blob.data(), blob.data() + blob.count()), never->net().Values(each.name))
        << each.name;
    EXPECT_EQ(Floats(blob.diff(), blob.diff() + blob.count()), never->net().Gradients(each.name))
        << each.name;
  }
  const auto gradients = on_use->net().gradients(), others = never->net().gradients();
  EXPECT_TRUE(std::equal(gradients.begin(), gradients.end(), others.begin(), others.end()));
}

// Without many layers, which would enlarge the differences of rounding.
class PlainBlobsOfSmallNets : public PlainBlobsOfNets {};

TEST_P(PlainBlobsOfSmallNets, AreThoseOfAPlainNetBeforeAndAfterSteps) {
  for (const int steps : {0, 3}) {
    const auto on_use = Open(net_, Begin::kOnUse), plain = Open(net_, Begin::kPlain);
    EXPECT_EQ(on_use->net().layers().size(), plain->net().layers().size());
    for (int i = 0; i < steps; ++i) {
      EXPECT_NEAR(on_use->Step()->loss, plain->Step()->loss, 1e-3) << "step " << i;
    }
    ExpectSameBlobs(on_use->net(), plain->net());
    EXPECT_NEAR(on_use->Step()->loss, plain->Step()->loss, 1e-3);
    ExpectSameBlobs(on_use->net(), plain->net());
    const size_t last = plain->net().layers().size() - 1;
    for (Net* net : {&on_use->net(), &plain->net()}) {
      net->ClearGradients();
      net->ForwardLayers(0, last);
      net->BackwardLayers(last, 0);
    }
    ExpectSameBlobs(on_use->net(), plain->net());
  }
}

TEST_P(PlainBlobsOfNets, StayWhereTheyAre) {
  const auto session = Open(net_, Begin::kOnUse);
  Net& net = session->net();
  const float* const loss = net.blob("loss").data();
  const float* const loss_diff = net.blob("loss").diff();
  const std::vector<NetLayer> before = net.layers();
  const float* const gradients = net.gradients().data();
  EXPECT_EQ(session->Step()->loss, loss[0]);
  const std::string first = net.blobs()[2].name;
  Blob* const blob = &net.blob(first);  // the net is built anew
  EXPECT_EQ(&net.blob(first), blob);
  EXPECT_EQ(net.blob("loss").data(), loss);
  EXPECT_EQ(net.blob("loss").diff(), loss_diff);
  EXPECT_EQ(net.gradients().data(), gradients);
  const std::vector<NetLayer> after = net.layers();
  ASSERT_EQ(before.size(), after.size());
  for (size_t n = 0; n < before.size(); ++n) EXPECT_EQ(before[n].weights, after[n].weights);
  const float* const values = blob->data();
  const Floats first_values(values, values + blob->count());
  EXPECT_EQ(session->Step()->loss, loss[0]);
  EXPECT_EQ(blob->data(), values);
  EXPECT_NE(Floats(values, values + blob->count()), first_values);
}

const auto name_of = [](const auto& info) { return std::string(info.param); };

INSTANTIATE_TEST_SUITE_P(OnUse, PlainBlobsOfNets,
                         testing::Values("lenet", "cifar10_quick", "resnet20", "in_place"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OnUse, PlainBlobsOfSmallNets,
                         testing::Values("lenet", "cifar10_quick", "in_place"), name_of);

// The layers that a step has run keep what a backward pass needs, until others take their place.
TEST(PlainBlobsOnUse, AreMadeByTheirFirstUse) {
  const auto session = Open(InPlace(), Begin::kOnUse);
  Net& net = session->net();
  const size_t last = net.layers().size() - 1;
  session->Step();
  net.blob("loss");
  net.blob("ip");  // an output and one between layers, in plain order as they are
  net.Reshape();   // no shape has changed
  session->Step();
  EXPECT_CONTAINS(ErrorOf([&] { net.BackwardLayers(last, 0); }),
                  "has run in a session's step only: expected a forward pass before it");
  session->Step();
  net.BackwardLayers(last, 0);
}

TEST(PlainBlobsOnUse, LeaveThePlaceInTheData) {
  Workspace work;
  SmallNet small = work.Net();
  small.convolution = true;
  work.WriteNet(small);
  SessionOptions options, plain;
  options.plain_blobs_on_use = plain.plain_blobs = true;
  const auto on_use = Session::Open(work.Write("on_use", Workspace::Solver(20)), options);
  const auto whole = Session::Open(work.Write("plain", Workspace::Solver(20)), plain);
  const std::string name = whole->net().layers()[0].tops[0];
  for (int i = 0; i < 12; ++i) {
    EXPECT_NEAR(on_use->Step()->loss, whole->Step()->loss, 1e-4) << i;
    if (i < 5) continue;
    const Blob &one = on_use->net().blob(name), &other = whole->net().blob(name);
    EXPECT_EQ(Floats(one.data(), one.data() + one.count()),
              Floats(other.data(), other.data() + other.count()));
  }
}

TEST(PlainBlobsOnUse, MayBeginBetweenGradientsAndUpdate) {
  const auto on_use = Open(InPlace(), Begin::kOnUse), plain = Open(InPlace(), Begin::kPlain);
  on_use->OnGradients([&] { on_use->net().blob("c").diff(); });
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(on_use->Step()->loss, plain->Step()->loss, 1e-3);
  ExpectSameBlobs(on_use->net(), plain->net());
}

}  // namespace
}  // namespace millrace::test
