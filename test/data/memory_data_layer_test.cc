#include "nn/layers/data/memory_data_layer.h"

#include <numeric>

#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;

caffe::LayerParameter Param(const std::string& more = "") {
  return test::LayerOf(
      "type: 'MemoryData' top: 'data' top: 'label' "
      "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 3 } " +
      more);
}

std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

MemoryDataLayer& LayerOf(LayerInstance* instance) {
  return dynamic_cast<MemoryDataLayer&>(instance->layer());
}

TEST(MemoryDataLayer, GivesBatchAfterBatchAndBeginsAgain) {
  LayerInstance layer(Param(), nullptr);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 1, 2, 3}));
  EXPECT_EQ(layer.top(1).shape(), Shape({2}));
  EXPECT_EQ(layer.layer().batch_size(), 2);
  LayerOf(&layer).SetData(Numbers(24, 0), Numbers(4, 100));
  for (int pass = 0; pass < 5; ++pass) {
    const float at = static_cast<float>(pass % 2);
    EXPECT_EQ(layer.Next(0), Numbers(12, 12 * at));
    EXPECT_EQ(layer.Values(1), Numbers(2, 100 + 2 * at));
  }
}

TEST(MemoryDataLayer, KeepsTheValuesOfItsTopsUntilTheNextForward) {
  LayerInstance layer(Param(), nullptr);
  LayerOf(&layer).SetData(Numbers(24, 0), Numbers(4, 100));
  layer.Forward();
  for (const float first : {500.0f, 700.0f}) {
    LayerOf(&layer).SetData(Numbers(12, first), Numbers(2, 7));
    EXPECT_EQ(layer.Values(0), Numbers(12, 0));
  }
  EXPECT_EQ(layer.Next(0), Numbers(12, 700));
  EXPECT_EQ(layer.Next(0), Numbers(12, 700));
}

TEST(MemoryDataLayer, CopiesToADevice) {
  for (const test::FakeMode mode :
       {test::FakeMode::kAtOnce, test::FakeMode::kLate, test::FakeMode::kThread}) {
    test::FakeDevice device({.mode = mode});
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    LayerInstance layer(Param(), nullptr, caffe::TRAIN, *queue);
    const size_t bytes = 12 * sizeof(float);
    const Buffer all(device.memory(), 6 * bytes);
    for (int pass = 0; pass < 6; ++pass) {  // new arrays while the device may still copy the old
      if (pass % 3 == 0) {
        LayerOf(&layer).SetData(Numbers(24, static_cast<float>(pass)), Numbers(4, 1));
      }
      layer.Forward();
      queue->Copy(all.get<char>() + pass * bytes, layer.top(0).data(), bytes);
    }
    queue->Synchronize();
    std::vector<float> values(72);
    device.memory().CopyToHost(values.data(), all.get(), all.bytes());
    for (int pass = 0; pass < 6; ++pass) {
      const auto first = static_cast<float>(pass / 3 * 3 + pass % 3 % 2 * 12);
      EXPECT_EQ(std::vector<float>(values.begin() + pass * 12, values.begin() + pass * 12 + 12),
                Numbers(12, first));
    }
  }
}

TEST(MemoryDataLayer, TransformsDatumsButNotArrays) {
  LayerInstance layer(Param("transform_param { scale: 0.5 mean_value: 3 }"), nullptr);
  LayerOf(&layer).SetData(Numbers(12, 0), Numbers(2, 0));
  EXPECT_EQ(layer.Next(0), Numbers(12, 0));
  const Image gray = test::SmoothPixels(1, 2, 3, 4);
  const std::vector<caffe::Datum> datums = {test::ByteDatum(5),
                                            test::EncodedDatum(6, test::EncodePng(gray, {0}))};
  LayerOf(&layer).SetData(datums);
  const std::vector<float> values = layer.Next(0);
  EXPECT_EQ(layer.Values(1), std::vector<float>({5, 6}));
  for (int i = 0; i < 6; ++i) {
    const auto byte = static_cast<uint8_t>(datums[0].data()[i]);
    EXPECT_EQ(values[i], 0.5f * (static_cast<float>(byte) - 3));
    EXPECT_EQ(values[6 + i], 0.5f * (static_cast<float>(gray.values[i]) - 3));
  }
}

TEST(MemoryDataLayer, SaysWhatIsMissingOrDoesNotFit) {
  LayerInstance layer(Param(), nullptr);
  EXPECT_EQ(test::ErrorOf([&] { layer.Forward(); }),
            "layer 'subject': has no data: the program gives it with SetMemoryData");
  const auto error = [&](size_t values, size_t labels) {
    return test::ErrorOf([&] { LayerOf(&layer).SetData(Numbers(values, 0), Numbers(labels, 0)); });
  };
  EXPECT_EQ(error(18, 3), "layer 'subject': 3 labels given, expected a multiple of batch_size, 2");
  EXPECT_CONTAINS(error(0, 0), "0 labels given");
  EXPECT_EQ(error(13, 2), "layer 'subject': 13 values given, expected 2 examples of 6");
  const std::vector<caffe::Datum> odd = {test::ByteDatum(1), test::ByteDatum(1),
                                         test::ByteDatum(1)};
  EXPECT_CONTAINS(test::ErrorOf([&] { LayerOf(&layer).SetData(odd); }), "3 datums given");
  const std::vector<caffe::Datum> large = {test::ByteDatum(1, 1, 3, 3),
                                           test::ByteDatum(1, 1, 3, 3)};
  EXPECT_EQ(test::ErrorOf([&] { LayerOf(&layer).SetData(large); }),
            "layer 'subject': the transformed datums are 1 x 3 x 3, expected 1 x 2 x 3");
  const std::vector<caffe::Datum> mixed = {test::ByteDatum(1), test::ByteDatum(1, 1, 3, 3)};
  EXPECT_CONTAINS(test::ErrorOf([&] { LayerOf(&layer).SetData(mixed); }),
                  "layer 'subject': record '1': is 1 x 3 x 3, expected 1 x 2 x 3");
  const std::pair<std::string, std::string> cases[] = {
      {"", "batch_size"},
      {"batch_size: 1 height: 1 width: 1", "channels"},
      {"batch_size: 1 channels: 1 width: 1", "height"},
      {"batch_size: 1 channels: 100000 height: 100000 width: 2", "height"}};
  for (const auto& [fields, field] : cases) {
    EXPECT_EQ(test::SetUpError(test::LayerOf("type: 'MemoryData' top: 'a' top: 'b' "
                                             "memory_data_param { " +
                                             fields + " }"))
                  .rfind("memory_data_param." + field + ": ", 0),
              0u)
        << fields;
  }
}

}  // namespace
}  // namespace millrace
