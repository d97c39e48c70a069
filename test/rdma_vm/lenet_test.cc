// LeNet on (smaller) Fashion-MNIST, trained by three nodes over multicast, on a clean fabric and on
// faulty ones. It must reach the accuracy of a single process.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "data/convert.h"
#include "proto/parse.h"
#include "test/rdma_vm/cluster_of_devices.h"

namespace millrace::test {
namespace {

constexpr const char* kImages = "/usr/share/datasets/fashion-mnist/";
constexpr uint32_t kTrain = 8000, kTest = 1000;
// Images have half the width and height, with a black border that LeNet's layers need: the emulated
// processor computes with floats a few hundred times slower than a real one.
constexpr uint32_t kSide = 28, kHalf = kSide / 2 + 2;

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

// A file of the data set from byte `begin` on.
std::string Unpacked(const std::string& file, size_t begin) {
  const std::string bytes = RunOrFail({"zcat", kImages + file + ".gz"});
  return bytes.size() < begin ? "" : bytes.substr(begin);
}

// Each pixel is the mean of four.
std::string Halved(const std::string& images, size_t count) {
  std::string halved(count * kHalf * kHalf, '\0');
  for (size_t image = 0; image < count; ++image) {
    for (size_t row = 0; row < kSide / 2; ++row) {
      for (size_t column = 0; column < kSide / 2; ++column) {
        const char* const four = &images[(image * kSide + 2 * row) * kSide + 2 * column];
        unsigned sum = 0;
        for (const size_t at : {0u, 1u, kSide, kSide + 1}) sum += static_cast<uint8_t>(four[at]);
        halved[(image * kHalf + row + 1) * kHalf + column + 1] = static_cast<char>(sum / 4);
      }
    }
  }
  return halved;
}

// Converts the first `count` images of a part of the data set.
void Convert(const std::string& part, uint32_t count, const std::string& database) {
  const std::string images = Unpacked(part + "-images-idx3-ubyte", 16);
  const std::string labels = Unpacked(part + "-labels-idx1-ubyte", 8);
  ASSERT_GE(images.size(), size_t{count} * kSide * kSide);
  ASSERT_GE(labels.size(), count);
  const TempDir folder;
  WriteFile(folder / "images", BigEndian({0x803, count, kHalf, kHalf}) + Halved(images, count));
  WriteFile(folder / "labels", BigEndian({0x801, count}) + labels.substr(0, count));
  ConvertMnist(folder / "images", folder / "labels", database);
}

struct Fabric {
  std::string name;
  std::vector<std::string> netem;  // netem rule of the switch; empty: none
};

void PrintTo(const Fabric& fabric, std::ostream* out) { *out << fabric.name; }

class LeNetOverVerbs : public ClusterOfDevices, public testing::WithParamInterface<Fabric> {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(kImages) || !WhyNoVerbs().empty()) return;
    data_ = std::make_unique<TempDir>();
    Convert("train", kTrain, *data_ / "train_lmdb");
    Convert("t10k", kTest, *data_ / "test_lmdb");
  }
  static void TearDownTestSuite() { data_.reset(); }

  void SetUp() override {
    if (!std::filesystem::exists(kImages)) GTEST_SKIP() << "no package dataset-fashion-mnist";
    ClusterOfDevices::SetUp();
  }

  // The example's net on these images, in smaller batches.
  void WriteLeNet() {
    caffe::NetParameter net;
    SourceMap source;
    LoadText("examples/fashion_mnist/lenet_train_test.prototxt", &net, &source);
    for (caffe::LayerParameter& layer : *net.mutable_layer()) {
      if (!layer.has_data_param()) continue;
      const bool trains = layer.include(0).phase() == caffe::TRAIN;
      caffe::DataParameter* const data = layer.mutable_data_param();
      data->clear_source();
      data->add_source(*data_ / (trains ? "train_lmdb" : "test_lmdb"));
      if (trains) data->set_batch_size(16);
    }
    SaveText(work_ / "net.prototxt", net);
  }

  static inline std::unique_ptr<TempDir> data_;
};

TEST_P(LeNetOverVerbs, ComesToTheUsualAccuracy) {
  WriteLeNet();
  WriteTopology(Segment(Multicast("on")));
  caffe::SolverParameter solver = Endless();
  solver.set_base_lr(0.005f);
  solver.set_weight_decay(0.0005f);
  std::unique_ptr<Disturbance> disturbance;
  if (!GetParam().netem.empty()) {
    disturbance = std::make_unique<Disturbance>(std::vector<int>{0, 1, 2}, GetParam().netem);
  }
  StartAll(solver);
  TrainTogether(800);
  ExpectAccuracy(0.75, kTest / 100);
}

INSTANTIATE_TEST_SUITE_P(
    Fabrics, LeNetOverVerbs,
    testing::Values(Fabric{"Clean", {}}, Fabric{"WithOnePercentLost", {"loss", "1%"}},
                    Fabric{"WithTenPercentLost", {"loss", "10%"}},
                    Fabric{"ThatReordersAndDuplicates",
                           {"delay", "1ms", "reorder", "25%", "duplicate", "5%"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace millrace::test
