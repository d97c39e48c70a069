// Data layers on GPUs give the values of those on the host, bit by bit, whether images travel as
// bytes or as floats.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "nn/gpu/gpu_settings.h"
#include "proto/parse.h"
#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/chosen_device.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int kRecords = 10, kBatch = 4, kPasses = 12;

struct Values {
  std::vector<float> images, labels;
  bool operator==(const Values&) const = default;
};

class GpuImages : public OnChosenDevice {
 protected:
  // Values of all passes of the layer on `device`, which may fall behind. `as_bytes`: images are
  // transformed there.
  Values Read(const caffe::LayerParameter& layer, caffe::Phase phase, Device& device,
              bool as_bytes = true) {
    Values values;
    DataService service{DataOptions()};
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    GpuSettingsOf(*queue).transform_images = as_bytes;
    LayerInstance instance(layer, &service, phase, *queue);
    const size_t image_bytes = instance.top(0).count() * sizeof(float);
    constexpr size_t kLabelBytes = kBatch * sizeof(float);
    const Buffer images(device.memory(), kPasses * image_bytes);
    const Buffer labels(device.memory(), kPasses * kLabelBytes);
    for (int pass = 0; pass < kPasses; ++pass) {
      instance.Forward();
      queue->Copy(images.get<char>() + pass * image_bytes, instance.top(0).data(), image_bytes);
      queue->Copy(labels.get<char>() + pass * kLabelBytes, instance.top(1).data(), kLabelBytes);
    }
    queue->Synchronize();
    values.images.resize(images.bytes() / sizeof(float));
    values.labels.resize(labels.bytes() / sizeof(float));
    device.memory().CopyToHost(values.images.data(), images.get(), images.bytes());
    device.memory().CopyToHost(values.labels.data(), labels.get(), labels.bytes());
    return values;
  }

  // A layer over the records with `transform` in its transform_param.
  caffe::LayerParameter LayerOver(const std::vector<caffe::Datum>& records,
                                  const std::string& transform) {
    const std::string path = folder_ / StrCat("db", databases_++);
    WriteDb(path, records);
    return LayerOf(StrCat("type: 'Data' top: 'data' top: 'label' data_param { source: '", path,
                          "' backend: LMDB prefetch: 2 batch_size: ", kBatch,
                          " } transform_param { ", transform, " }"));
  }

  void ExpectHostValues(const caffe::LayerParameter& layer, const std::string& what) {
    for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
      const Values expected = Read(layer, phase, HostDevice());
      for (const bool wanted : {true, false}) {
        EXPECT_EQ(Read(layer, phase, first(), wanted), expected)
            << what << (wanted ? ", as bytes" : ", as floats");
      }
    }
  }

  std::vector<caffe::Datum> RandomBytes(int channels, int height, int width) {
    std::vector<caffe::Datum> records;
    for (int i = 0; i < kRecords; ++i) {
      records.push_back(ByteDatum(i, channels, height, width));
      for (char& pixel : *records.back().mutable_data()) pixel = static_cast<char>(rng_.Next());
    }
    return records;
  }
  void ToFloats(caffe::Datum* datum) {
    for (const char pixel : datum->data()) datum->add_float_data(static_cast<uint8_t>(pixel) / 7.f);
    datum->clear_data();
  }

  TempDir folder_;
  int databases_ = 0;
  Rng rng_{Seed(), {1}};
};

TEST_P(GpuImages, HaveTheHostsValuesForEveryTransform) {
  caffe::BlobProto mean;
  for (const int dim : {3, 9, 11}) mean.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 3 * 9 * 11; ++i) mean.add_data(100 + rng_.Gaussian());
  SaveBinary(folder_ / "mean", mean);
  const std::string mean_file = StrCat("mean_file: '", folder_ / "mean", "'");
  const std::string transforms[] = {"",
                                    "scale: 0.00390625",
                                    "mean_value: 104.5 scale: 0.017",
                                    "mean_value: 104 mean_value: 117 mean_value: 123.7",
                                    "mirror: true",
                                    "crop_size: 7 mirror: true mean_value: 3 scale: 0.3",
                                    "crop_h: 9 crop_w: 5",
                                    "crop_h: 4 crop_w: 11 mirror: true",
                                    mean_file,
                                    mean_file + " crop_size: 6 mirror: true scale: 0.1"};
  const auto records = RandomBytes(3, 9, 11);
  for (const std::string& transform : transforms) {
    ExpectHostValues(LayerOver(records, transform), transform);
  }
}

TEST_P(GpuImages, AreOfOneChannelOrOneByte) {
  ExpectHostValues(LayerOver(RandomBytes(1, 28, 28), "scale: 0.00390625"), "digits");
  ExpectHostValues(LayerOver(RandomBytes(1, 1, 1), "mirror: true mean_value: 9"), "one byte");
}

// The batches of a database whose records hold bytes or floats travel as they can.
TEST_P(GpuImages, MayHoldFloats) {
  auto records = RandomBytes(2, 5, 6);
  for (const int i : {0, 1, 5, 9}) {
    ToFloats(&records[i]);
    const std::string what = StrCat("with floats in a record up to ", i);
    ExpectHostValues(LayerOver(records, "crop_size: 4 mirror: true mean_value: 20"), what);
  }
  for (caffe::Datum& each : records) {
    if (!each.data().empty()) ToFloats(&each);
  }
  ExpectHostValues(LayerOver(records, "scale: 0.5"), "floats only");
}

TEST_P(GpuImages, MayBeFilesOfManySizes) {
  std::vector<caffe::Datum> records;
  for (int i = 0; i < kRecords; ++i) {
    records.push_back(EncodedDatum(i, EncodePng(SmoothPixels(3, 8 + i, 20 - i, i), {})));
  }
  ExpectHostValues(LayerOver(records, "crop_size: 8 mirror: true mean_value: 50"), "cut");
  ExpectHostValues(LayerOver(records,
                             "scale: 0.1 resize_param { prob: 1 resize_mode: WARP height: 6"
                             " width: 10 interp_mode: LINEAR }"),
                   "resized");
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuImages, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

}  // namespace
}  // namespace millrace::test
