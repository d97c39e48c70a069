// Nets on a device whose memory the host cannot access: code that is not of a backend must give the
// results of a net on the host, however late the device does its work.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "millrace/layer.h"
#include "solver/update_rule.h"
#include "test/nn/net_support.h"
#include "test/support/chosen_device.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

constexpr int kRows = 6, kClasses = 3;

// Two losses on the same scores, of which one counts half; the values of `data` are new in each
// pass, those of `label` are written by the caller.
const std::string kNet =
    "name: 'net' layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param {"
    "  shape { dim: 6 dim: 5 } data_filler { type: 'gaussian' std: 1 } } }"
    "layer { name: 'constant' type: 'DummyData' top: 'constant' dummy_data_param {"
    "  shape { dim: 2 } data_filler { type: 'constant' value: 4 } } }"
    "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 6 } } }"
    "layer { name: 'hidden' type: 'InnerProduct' bottom: 'data' top: 'hidden'"
    "  inner_product_param { num_output: 7 weight_filler { type: 'xavier' }"
    "    bias_filler { type: 'constant' value: 0.1 } } }"
    "layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' }"
    "layer { name: 'scores' type: 'InnerProduct' bottom: 'hidden' top: 'scores'"
    "  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.3 } } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'loss' }"
    "layer { name: 'half' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'half'"
    "  loss_weight: 0.5 }";

Floats ToHost(MemorySpace& memory, const float* from, int64_t count) {
  Floats values(count);
  memory.CopyToHost(values.data(), from, values.size() * sizeof(float));
  return values;
}

void ExpectNear(const Floats& actual, const Floats& expected, float tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
  }
}

// A net with weights and an update rule on a device.
class Trainer {
 public:
  explicit Trainer(Device& device, const std::string& solver = "momentum: 0.9 weight_decay: 0.01") {
    caffe::NetParameter param;
    SourceMap source;
    ParseText(kNet, "net.prototxt", &param, &source);
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.device = &device;
    net_ = std::make_unique<BuiltNet>(param, source, options);
    const size_t bytes = net_->layout().size() * sizeof(float);
    weights_ = Buffer(device.memory(), bytes);
    device.memory().Fill(weights_.get(), 0, bytes);
    net_->BindWeights(weights_.get<float>());
    net_->FillWeights();
    caffe::SolverParameter rule;
    ParseText(solver, "solver.prototxt", &rule, nullptr);
    rule_ = UpdateRuleRegistry::Get().Create(rule, UpdateParamsOf(*net_), net_->layout().size(),
                                             net_->queue());
  }

  // As a solver's iteration. Returns its loss.
  float Iterate(int iteration) {
    net_->queue().Synchronize();  // before the host writes the input
    Floats labels(kRows);
    for (int i = 0; i < kRows; ++i) labels[i] = static_cast<float>((iteration + i) % kClasses);
    net_->FindBlob("label")->CopyDataFromHost(labels.data());
    net_->ClearGradients();
    float loss = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradients of the first
      net_->set_pass(2 * iteration + pass);
      net_->EnqueueForward();
      net_->Backward();
      loss += net_->Loss();
    }
    rule_->Apply(0.05f, static_cast<float>(iteration % 2), net_->gradients(),
                 weights_.get<float>());
    net_->EndIteration();
    return loss;
  }

  BuiltNet& net() { return *net_; }
  float* weights() { return weights_.get<float>(); }
  Floats WeightValues() { return Values(weights()); }
  Floats GradientValues() { return Values(net_->gradients()); }
  Floats HistoryValues() {
    History history;
    rule_->ExportHistory(&history);
    Floats values;
    for (const caffe::BlobProto& blob : history) {
      values.insert(values.end(), blob.data().begin(), blob.data().end());
    }
    return values;
  }
  void Resume(Trainer* from) {
    History history;
    from->rule_->ExportHistory(&history);
    rule_->ImportHistory(history, "history");
    caffe::NetParameter model;
    from->net_->ToProto(&model, false);
    EXPECT_GT(net_->CopyWeightsFrom(model, "model"), 0);
  }

 private:
  Floats Values(const float* from) {
    net_->queue().Synchronize();
    return ToHost(net_->device().memory(), from, net_->layout().size());
  }

  Buffer weights_;
  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<UpdateRule> rule_;
};

class DeviceNet : public OnChosenDevice {
 protected:
  // Tolerance between results on the device and on the host.
  float tolerance() const { return is_fake() ? 1e-5f : 2e-4f; }
};

class FakeDeviceNet : public testing::TestWithParam<FakeMode> {
 protected:
  FakeDevice device_{{.mode = GetParam()}};
};

TEST_P(DeviceNet, TrainsAsOnTheHost) {
  for (const char* solver : {"momentum: 0.9 weight_decay: 0.01", "momentum: 0.5 iter_size: 2",
                             "clip_gradients: 0.1 momentum: 0.9 type: 'Nesterov'",
                             "regularization_type: 'L1' weight_decay: 0.01",
                             "type: 'AdaGrad' delta: 1e-3 weight_decay: 0.01",
                             "type: 'RMSProp' delta: 1e-2 regularization_type: 'L1' "
                             "weight_decay: 0.01",
                             "type: 'AdaDelta' momentum: 0.9 delta: 1e-3 clip_gradients: 0.1",
                             "type: 'Adam' momentum: 0.9 delta: 1e-2 iter_size: 2"}) {
    SCOPED_TRACE(solver);
    Trainer host(HostDevice(), solver), device(first(), solver);
    EXPECT_EQ(device.WeightValues(), host.WeightValues());
    for (int iteration = 0; iteration < 15; ++iteration) {
      const float expected = host.Iterate(iteration);
      ASSERT_TRUE(std::isfinite(expected));
      ASSERT_NEAR(device.Iterate(iteration), expected, tolerance()) << iteration;
    }
    ExpectNear(device.WeightValues(), host.WeightValues(), tolerance(), "weight");
    ExpectNear(device.GradientValues(), host.GradientValues(), tolerance(), "gradient");
    ExpectNear(device.HistoryValues(), host.HistoryValues(), tolerance(), "history");
    ExpectNear(device.net().OutputValues(), host.net().OutputValues(), tolerance(), "output");
    EXPECT_EQ(device.net().OutputValues().size(), 4u);
    EXPECT_EQ(device.net().OutputValues()[0], 4);  // the constant
    EXPECT_EQ(device.net().FindNonFinite(), "");
  }
}

TEST_P(FakeDeviceNet, GivesTheSameBitsHoweverLateTheWorkIsDone) {
  FakeDevice at_once;
  Trainer expected(at_once), late(device_);
  for (int iteration = 0; iteration < 10; ++iteration) {
    EXPECT_EQ(late.Iterate(iteration), expected.Iterate(iteration));
  }
  EXPECT_EQ(late.WeightValues(), expected.WeightValues());
  EXPECT_EQ(late.HistoryValues(), expected.HistoryValues());
}

TEST_P(DeviceNet, ContinuesFromItsSavedState) {
  Trainer early(first());
  for (int iteration = 0; iteration < 3; ++iteration) early.Iterate(iteration);
  Trainer late(first());
  late.Resume(&early);
  EXPECT_EQ(late.WeightValues(), early.WeightValues());
  for (int iteration = 3; iteration < 6; ++iteration) {
    EXPECT_EQ(late.Iterate(iteration), early.Iterate(iteration));
  }
  EXPECT_EQ(late.WeightValues(), early.WeightValues());
}

TEST_P(DeviceNet, SavesWeightsAndGradients) {
  Trainer host(HostDevice()), device(first());
  host.Iterate(0), device.Iterate(0);
  caffe::NetParameter expected, saved;
  host.net().ToProto(&expected, true);
  device.net().ToProto(&saved, true);
  ASSERT_EQ(saved.layer_size(), expected.layer_size());
  int blobs = 0;
  for (int i = 0; i < saved.layer_size(); ++i) {
    ASSERT_EQ(saved.layer(i).blobs_size(), expected.layer(i).blobs_size());
    for (int j = 0; j < saved.layer(i).blobs_size(); ++j, ++blobs) {
      const caffe::BlobProto &a = saved.layer(i).blobs(j), &b = expected.layer(i).blobs(j);
      EXPECT_EQ(ShapeOf(a), ShapeOf(b));
      ExpectNear({a.data().begin(), a.data().end()}, {b.data().begin(), b.data().end()},
                 tolerance(), "data");
      ExpectNear({a.diff().begin(), a.diff().end()}, {b.diff().begin(), b.diff().end()},
                 tolerance(), "diff");
    }
  }
  EXPECT_EQ(blobs, 4);
}

TEST_P(DeviceNet, SaysWhichLayerIsNotFinite) {
  Trainer trainer(first());
  trainer.Iterate(0);
  trainer.net().queue().Synchronize();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  first().memory().CopyFromHost(trainer.weights(), &nan, sizeof(nan));
  EXPECT_EQ(trainer.net().FindNonFinite(), "layer 'hidden' (InnerProduct): weights are not finite");
  EXPECT_FALSE(std::isfinite(trainer.Iterate(1)));
}

TEST_P(DeviceNet, SharesTheWeightsOfATrainNetAndFillsItsOwn) {
  Trainer train(first());
  std::string text = kNet;
  text.replace(text.find("name: 'scores' type"), 14, "name: 'own'");
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  BuiltNetOptions options = InPhase(caffe::TEST);
  options.device = &first();
  BuiltNet net(param, source, options);
  net.BindWeights(train.net().layout(), train.weights());
  EXPECT_EQ(net.FindLayer("hidden")->params()[0].blob->data(),
            train.net().FindLayer("hidden")->params()[0].blob->data());
  const Blob& own = *net.FindLayer("own")->params()[0].blob;
  const Blob& filled = *train.net().FindLayer("scores")->params()[0].blob;
  EXPECT_NE(own.data(), filled.data());
  // The same filler at the same place of the net.
  EXPECT_EQ(ToHost(own.memory(), own.data(), own.count()),
            ToHost(filled.memory(), filled.data(), filled.count()));
  const Floats labels(kRows, 1.0f);
  net.FindBlob("label")->CopyDataFromHost(labels.data());
  EXPECT_TRUE(std::isfinite(net.Forward()));
}

TEST_P(DeviceNet, ReadsTheSyntheticDataOfEachPassHoweverLate) {
  caffe::NetParameter param;
  SourceMap source;
  ParseText(
      "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param {"
      "  shape { dim: 50 } data_filler { type: 'uniform' } } }",
      "net.prototxt", &param, &source);
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  BuiltNet host(param, source, options);
  options.device = &first();
  const Buffer seen(first().memory(), 10 * 50 * sizeof(float));
  BuiltNet net(param, source, options);
  for (int pass = 0; pass < 10; ++pass) {
    net.set_pass(pass);
    net.EnqueueForward();
    net.queue().Copy(seen.get<float>() + 50 * pass, net.FindBlob("data")->data(),
                     50 * sizeof(float));
  }
  net.queue().Synchronize();
  for (int pass = 0; pass < 10; ++pass) {
    host.set_pass(pass);
    host.EnqueueForward();
    EXPECT_EQ(ToHost(first().memory(), seen.get<float>() + 50 * pass, 50), host.OutputValues());
  }
}

TEST_P(DeviceNet, EndsWhileWorkIsUnderWay) {
  Trainer trainer(first());
  trainer.Iterate(0);
  trainer.net().EnqueueForward();
  trainer.net().Backward();
}

TEST_P(FakeDeviceNet, SaysWhyItsDeviceHasFailed) {
  Trainer trainer(device_);
  trainer.Iterate(0);
  FakeQueue::Of(trainer.net().queue()).Fail("it has fallen off the bus");
  const std::string why = "fake device 0: it has fallen off the bus";
  EXPECT_EQ(ErrorOf([&] { trainer.net().Loss(); }), why);
  EXPECT_EQ(ErrorOf([&] { trainer.net().EnqueueForward(); }), why);
  EXPECT_EQ(ErrorOf([&] { trainer.net().OutputValues(); }), why);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceNet, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);
INSTANTIATE_TEST_SUITE_P(Queues, FakeDeviceNet,
                         testing::Values(FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread),
                         [](const auto& info) { return ModeName(info.param); });

TEST(DeviceNetQueue, RunsPassesWithoutTheHost) {
  FakeDevice device({.mode = FakeMode::kLate});
  Trainer trainer(device);
  EXPECT_EQ(device.priorities(), std::vector{QueuePriority::kNormal});
  trainer.Iterate(0);  // memory is allocated in the first passes
  FakeQueue& queue = FakeQueue::Of(trainer.net().queue());
  queue.Synchronize();
  const uint64_t before = queue.enqueued();
  trainer.net().EnqueueForward();
  const uint64_t forward = queue.enqueued();
  trainer.net().Backward();
  EXPECT_GT(forward, before);
  EXPECT_GT(queue.enqueued(), forward);
  EXPECT_EQ(queue.run(), before);
  trainer.net().Loss();
  EXPECT_EQ(queue.run(), forward);  // and not for the backward pass
}

// A layer that has code for the host only.
class HostOnly : public Layer {
 public:
  using Layer::Layer;
  void Reshape(const Blobs&, const Blobs&) override {}
  void Forward(const Blobs&, const Blobs&) override {}
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};
const RegisterLayer<HostOnly> host_only("HostOnly", DeviceType::kCpu);

TEST(DeviceNetErrors, NameTheLayerAndTheDeviceThatItCannotRunOn) {
  caffe::NetParameter param;
  SourceMap source;
  ParseText(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 "
      "} } }\nlayer { name: 'norm'\n  type: 'HostOnly' bottom: 'x' top: 'y' }",
      "net.prototxt", &param, &source);
  FakeDevice device;
  BuiltNetOptions options;
  options.device = &device;
  EXPECT_EQ(
      ErrorOf([&] { BuiltNet(param, source, options); }),
      "net.prototxt:3: layer 'norm': type: a layer of type HostOnly cannot run on fake device 0: "
      "this build has code for it on cpu only");
  param.mutable_layer(1)->set_type("HostOnlx");
  const std::string unknown = ErrorOf([&] { BuiltNet(param, source, options); });
  EXPECT_TRUE(unknown.starts_with(
      "net.prototxt:3: layer 'norm': type: there is no layer type 'HostOnlx' on fake device 0; "
      "known: AbsVal, Accuracy, "))
      << unknown;
  EXPECT_CONTAINS(unknown, ", Pooling, ");
  EXPECT_EQ(unknown.find("HostOnly"), std::string::npos) << unknown;
  EXPECT_TRUE(LayerRegistry::Get().HasCodeFor(kFakeDevice));
  EXPECT_FALSE(LayerRegistry::Get().HasCodeFor(DeviceType{1001}));
}

// ---- Blobs and scratch memory ----

TEST(DeviceBlob, IsReadAndWrittenThroughTheHost) {
  FakeDevice device;
  Blob blob({2, 3}, device.memory());
  EXPECT_TRUE(device.Owns(blob.data()));
  EXPECT_TRUE(device.Owns(blob.diff()));
  Floats values(6, -1);
  blob.CopyDataToHost(values.data());
  EXPECT_EQ(values, Floats(6));
  blob.CopyDiffToHost(values.data());
  EXPECT_EQ(values, Floats(6));
  const Floats data = {1, 2, 3, 4, 5, 6}, diff = {7, 8, 9, 10, 11, 12};
  blob.CopyDataFromHost(data.data());
  blob.CopyDiffFromHost(diff.data());
  Floats copy;
  const float* const values_on_host = blob.DataOnHost(&copy);
  EXPECT_EQ(values_on_host, copy.data());
  EXPECT_EQ(copy, data);

  caffe::BlobProto proto;
  blob.ToProto(&proto, true);
  EXPECT_EQ(Floats(proto.diff().begin(), proto.diff().end()), diff);
  Blob again({2, 3}, device.memory());
  again.FromProto(proto, "blob");
  EXPECT_EQ(*again.DataOnHost(&copy), 1);
  EXPECT_EQ(copy, data);
  proto.clear_data();
  for (const float value : diff) proto.add_double_data(value);
  again.FromProto(proto, "blob");
  again.DataOnHost(&copy);
  EXPECT_EQ(copy, diff);
}

TEST(DeviceBlob, SharesMemoryAndStaysOnItsDevice) {
  FakeDevice device;
  Blob blob({4}, device.memory()), other(device.memory());
  other.ReshapeLike(blob);
  other.ShareData(blob);
  EXPECT_EQ(other.data(), blob.data());
  blob.Reshape({4000});
  EXPECT_EQ(&blob.memory(), &device.memory());
  EXPECT_TRUE(device.Owns(blob.data() + 3999));
  Blob on_host(Shape{3});
  Floats copy;
  EXPECT_EQ(on_host.DataOnHost(&copy), on_host.data());
  EXPECT_DEATH(on_host.ShareData(blob), "");
}

TEST(DeviceBlob, EndsAProgramThatTouchesItsValues) {
  FakeDevice device;
  Blob blob({4}, device.memory());
  blob.data();
  EXPECT_DEATH(blob.data()[1] = 1, "");
}

TEST(DeviceScratchpad, GrowsAfterTheWorkThatUsesIt) {
  FakeDevice device({.mode = FakeMode::kLate});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  Scratchpad scratch(*queue);
  void* const small = scratch.Get(100);
  EXPECT_TRUE(device.Owns(small));
  queue->Fill(small, 1, 100);
  EXPECT_EQ(scratch.Get(50), small);
  EXPECT_EQ(FakeQueue::Of(*queue).run(), 0u);
  void* const large = scratch.Get(1'000'000);
  queue->Fill(large, 1, 1'000'000);
  queue->Synchronize();
}

}  // namespace
}  // namespace millrace::test
