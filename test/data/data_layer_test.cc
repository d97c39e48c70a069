#include "nn/layers/data/data_layers.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "base/files/file.h"
#include "data/data_service.h"
#include "data/leveldb/leveldb_database.h"
#include "data/lmdb_database.h"
#include "data/prefetcher.h"
#include "nn/gpu/gpu_settings.h"
#include "test/data/test_db.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

caffe::LayerParameter LayerOver(const std::string& path, uint32_t batch_size) {
  caffe::LayerParameter param;
  param.set_name("digits");
  param.set_type("Data");
  param.add_top("data");
  param.add_top("label");
  param.mutable_data_param()->add_source(path);
  param.mutable_data_param()->set_batch_size(batch_size);
  param.mutable_data_param()->set_backend(caffe::DataParameter::LMDB);
  return param;
}

// A Data layer with its tops, set up as in a net.
class Instance {
 public:
  Instance(const caffe::LayerParameter& param, DataService* service, int tops = 2,
           Queue& queue = HostQueue())
      : data(queue.device().memory()), label(queue.device().memory()) {
    LayerContext context;
    context.device = &queue.device();
    context.queue = &queue;
    context.data = service;
    context.data_scope = "train";
    layer_ = LayerRegistry::Get().Create(param, context);
    top_ = {&data, &label};
    top_.resize(tops);
    layer_->SetUp({}, top_);
    layer_->Reshape({}, top_);
  }
  void Forward() { layer_->Forward({}, top_); }
  DataLayer& layer() { return dynamic_cast<DataLayer&>(*layer_); }
  std::vector<int> Labels() const { return {label.data(), label.data() + label.count()}; }

  Blob data, label;

 private:
  std::unique_ptr<Layer> layer_;
  Blobs top_;
};

// "field: message" of the FieldError thrown when such a layer is set up.
std::string SetUpError(const caffe::LayerParameter& param) {
  DataService service{DataOptions()};
  try {
    Instance instance(param, &service);
  } catch (const FieldError& error) {
    return error.field() + ": " + error.what();
  }
  return "";
}

class DataLayerTest : public testing::Test {
 protected:
  DataLayerTest() : path_(folder_ / "db") { test::WriteLabels(path_, 20); }
  test::TempDir folder_;
  const std::string path_;
};

TEST_F(DataLayerTest, GivesTransformedImagesAndLabels) {
  caffe::LayerParameter param = LayerOver(path_, 4);
  param.mutable_transform_param()->set_scale(0.5f);
  DataService service{DataOptions()};
  Instance instance(param, &service);
  EXPECT_EQ(instance.data.shape(), Shape({4, 1, 2, 3}));
  EXPECT_EQ(instance.label.shape(), Shape({4}));
  EXPECT_EQ(instance.layer().batch_size(), 4);
  for (int pass = 0; pass < 12; ++pass) {
    instance.Forward();
    for (int n = 0; n < 4; ++n) {
      const int record = (pass * 4 + n) % 20;
      EXPECT_EQ(instance.label.data()[n], static_cast<float>(record));
      const caffe::Datum datum = test::ByteDatum(record);
      for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(instance.data.data()[n * 6 + i],
                  0.5f * static_cast<float>(static_cast<uint8_t>(datum.data()[i])));
      }
    }
  }
}

// Work of a device that falls behind must still find each batch where it was when the layer gave
// it.
TEST_F(DataLayerTest, CopiesItsBatchesToADevice) {
  caffe::LayerParameter param = LayerOver(path_, 4);
  param.mutable_data_param()->set_prefetch(1);
  for (const test::FakeMode mode :
       {test::FakeMode::kAtOnce, test::FakeMode::kLate, test::FakeMode::kThread}) {
    test::FakeDevice device({.mode = mode});
    constexpr int kPasses = 30, kImage = 6, kBatch = 4;
    const size_t image_bytes = kBatch * kImage * sizeof(float),
                 label_bytes = kBatch * sizeof(float);
    const Buffer images(device.memory(), kPasses * image_bytes);
    const Buffer labels(device.memory(), kPasses * label_bytes);
    DataService service{DataOptions()};
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    Instance instance(param, &service, 2, *queue);
    const float* const at = instance.data.data();
    for (int pass = 0; pass < kPasses; ++pass) {
      instance.Forward();
      queue->Copy(images.get<char>() + pass * image_bytes, instance.data.data(), image_bytes);
      queue->Copy(labels.get<char>() + pass * label_bytes, instance.label.data(), label_bytes);
    }
    queue->Synchronize();
    EXPECT_EQ(instance.data.data(), at);
    std::vector<float> pixels(kPasses * kBatch * kImage), numbers(kPasses * kBatch);
    device.memory().CopyToHost(pixels.data(), images.get(), images.bytes());
    device.memory().CopyToHost(numbers.data(), labels.get(), labels.bytes());
    for (int i = 0; i < kPasses * kBatch; ++i) {
      const caffe::Datum datum = test::ByteDatum(i % 20);
      ASSERT_EQ(numbers[i], static_cast<float>(i % 20)) << i;
      for (int k = 0; k < kImage; ++k) {
        ASSERT_EQ(pixels[i * kImage + k],
                  static_cast<float>(static_cast<uint8_t>(datum.data()[k])));
      }
    }
  }
}

// Page-locked memory that holds the batches as bytes, but not as floats.
TEST_F(DataLayerTest, CopiesImagesToADeviceAsBytes) {
  constexpr int kImage = 3 * 16 * 16, kBatch = 4, kPrefetch = 2;
  std::vector<caffe::Datum> records;
  for (int i = 0; i < 8; ++i) records.push_back(test::ByteDatum(i, 3, 16, 16));
  test::WriteDb(folder_ / "images", records);
  caffe::LayerParameter param = LayerOver(folder_ / "images", kBatch);
  param.mutable_data_param()->set_prefetch(kPrefetch);
  // Pageable memory cannot be copied here.
  test::FakeDevice device({.staging_bytes = (kPrefetch + 2) * kBatch * (kImage + 32)});
  const auto pass = [&](bool as_bytes) {
    DataService service{DataOptions()};
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    GpuSettingsOf(*queue).transform_images = as_bytes;
    Instance instance(param, &service, 2, *queue);
    for (int i = 0; i < 10; ++i) instance.Forward();
    queue->Synchronize();
    std::vector<float> values(instance.data.count());
    instance.data.CopyDataToHost(values.data());
    return values;
  };
  const std::vector<float> values = pass(true);
  for (int i = 0; i < kBatch * kImage; ++i) {  // the tenth batch begins with record 4
    ASSERT_EQ(values[i], static_cast<uint8_t>(records[4 + i / kImage].data()[i % kImage])) << i;
  }
  EXPECT_THROW(pass(false), Error);
}

// Writes the value of a record's first byte to its first top and the number of the item to its
// second, and counts the places where it was asked to write, which must lie in `memory`.
class ChecksPlaces : public RecordTransform {
 public:
  ChecksPlaces(const test::FakeStaging& memory, std::atomic<uint64_t>* places)
      : memory_(memory), places_(*places) {}
  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Apply(const std::string&, const RecordView& record, uint64_t item,
             float* const* tops) override {
    for (int i = 0; i < 2; ++i) memory_.Require(tops[i], sizeof(float)), ++places_;
    std::fill_n(tops[0], 3, static_cast<float>(record.value.size()));
    *tops[1] = static_cast<float>(item);
  }

 private:
  const std::vector<Shape> shapes_ = {{3}, {}};
  const test::FakeStaging& memory_;
  std::atomic<uint64_t>& places_;
};

// From there it is copied to the device: not a value moves within the host.
TEST_F(DataLayerTest, TransformsRecordsIntoPageLockedMemory) {
  constexpr uint64_t kBatch = 4;
  test::FakeDevice device;
  BatchStreamOptions options;
  options.layer = "data";
  options.sources = {LmdbDatabase::Open(path_)};
  options.batch_size = kBatch;
  const auto stream = std::make_shared<BatchStream>(options);
  std::atomic<uint64_t> places{0};
  {
    Prefetcher prefetcher(
        stream, PerRecord(std::make_unique<ChecksPlaces>(device.staging(), &places), kBatch), 2,
        device.staging());
    for (uint64_t n = 0; n < 10; ++n) {
      ReadyBatch* const batch = prefetcher.Next();
      device.staging().Require(batch->memory.get(), batch->bytes());
      EXPECT_EQ(batch->offset(1) % 64, 0u);
      for (uint64_t i = 0; i < kBatch; ++i) {
        EXPECT_EQ(batch->data(1)[i], static_cast<float>(n * kBatch + i));
      }
      prefetcher.Recycle(batch);
    }
  }
  stream->Stop();
  EXPECT_GE(places, 10 * kBatch * 2);
  EXPECT_EQ(device.staging().allocations(), 3u);
}

// A batch is one copy, whatever its tops; all layers of a net take turns on one queue.
TEST_F(DataLayerTest, UploadsEachBatchInOneCopy) {
  constexpr uint64_t kPasses = 10, kBatch = 4, kPrefetch = 2;
  // Six bytes and a choice for each image, and a label; both in whole cache lines.
  constexpr uint64_t kBatchBytes = 128 + 64;
  caffe::LayerParameter param = LayerOver(path_, kBatch);
  param.mutable_data_param()->set_prefetch(kPrefetch);
  test::FakeDevice device({.mode = test::FakeMode::kLate});
  DataService service{DataOptions()};
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  Instance one(param, &service, 2, *queue);
  param.set_name("other");
  Instance two(param, &service, 2, *queue);
  EXPECT_EQ(device.queues().size(), 2u);
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    one.Forward();
    two.Forward();
  }
  // The next batch may be under way.
  EXPECT_GE(device.uploads(), 2 * kPasses);
  EXPECT_LE(device.uploads(), 2 * (kPasses + 1));
  EXPECT_EQ(device.uploaded_bytes(), device.uploads() * kBatchBytes);
  EXPECT_EQ(device.staging().allocations(), 2 * (kPrefetch + 2));
  queue->Synchronize();
  for (Instance* const layer : {&one, &two}) {
    std::vector<float> labels(kBatch);
    layer->label.CopyDataToHost(labels.data());
    EXPECT_EQ(labels, std::vector<float>({16, 17, 18, 19}));  // of the tenth batch of 20 records
  }
}

// The next batch travels to the device beside the work of the net.
TEST_F(DataLayerTest, UploadsTheNextBatchWhileTheNetComputes) {
  test::FakeDevice device({.mode = test::FakeMode::kLate});
  constexpr uint64_t kPasses = 20, kBatch = 4;
  const Buffer labels(device.memory(), kPasses * kBatch * sizeof(float));
  DataService service{DataOptions()};
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  auto& net = test::FakeQueue::Of(*queue);
  Instance instance(LayerOver(path_, kBatch), &service, 2, *queue);
  test::FakeQueue& upload = device.last_queue();
  ASSERT_NE(&upload, &net);
  bool ahead = false;
  for (uint64_t pass = 0; pass < kPasses || (pass < 10'000 && !ahead); ++pass) {
    instance.Forward();
    queue->Copy(labels.get<float>() + pass % kPasses * kBatch, instance.label.data(),
                kBatch * sizeof(float));
    // The next batch is uploaded ahead if it has been fetched by now.
    ahead |= device.uploads() > pass + 1;
    upload.Synchronize();
    EXPECT_LT(net.run(), net.enqueued());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(ahead);
  queue->Synchronize();
  std::vector<float> numbers(kPasses * kBatch);
  device.memory().CopyToHost(numbers.data(), labels.get(), labels.bytes());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i % 20) << i;
}

TEST_F(DataLayerTest, DecodesEncodedImagesBeforeItTransformsThem) {
  const Image color = test::SmoothPixels(3, 6, 5, 1), gray = test::SmoothPixels(1, 6, 5, 2);
  const std::string jpeg = test::EncodeJpeg(gray);
  test::WriteDb(folder_ / "images",
                {test::EncodedDatum(8, test::EncodePng(color, {})), test::EncodedDatum(9, jpeg)});
  caffe::LayerParameter param = LayerOver(folder_ / "images", 2);
  param.mutable_transform_param()->set_force_color(true);
  param.mutable_transform_param()->set_scale(0.5f);
  DataService service{DataOptions()};
  Instance instance(param, &service);
  EXPECT_EQ(instance.data.shape(), Shape({2, 3, 6, 5}));
  instance.Forward();
  EXPECT_EQ(instance.Labels(), std::vector<int>({8, 9}));
  const Image decoded = test::DecodeWithLibjpeg(jpeg, 1);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 30; ++i) {  // planes of blue, green, red
      EXPECT_EQ(instance.data.data()[c * 30 + i], 0.5f * color.values[i * 3 + 2 - c]);
      EXPECT_EQ(instance.data.data()[90 + c * 30 + i], 0.5f * decoded.values[i]);
    }
  }
}

TEST_F(DataLayerTest, RefusesEncodedImagesThatAreNotLikeTheFirst) {
  const auto png = [](int channels, int height) {
    const Image pixels = test::SmoothPixels(channels, height, 5);
    return test::EncodedDatum(0, test::EncodePng(pixels, {channels == 1 ? 0 : 2}));
  };
  const std::pair<caffe::Datum, std::string> cases[] = {
      {png(3, 7), "is 3 x 7 x 5, expected 3 x 6 x 5 like the first record"},
      {png(1, 6), "is 1 x 6 x 5, expected 3 x 6 x 5 like the first record"},
      {test::EncodedDatum(0, png(3, 6).data().substr(0, 60)), "is a damaged PNG: "}};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string path = folder_ / StrCat("odd", i);
    test::WriteDb(path, {png(3, 6), png(3, 6), cases[i].first});
    DataService service{DataOptions()};
    Instance instance(LayerOver(path, 2), &service);
    instance.Forward();
    EXPECT_CONTAINS(test::ErrorOf([&] { instance.Forward(); }),
                    path + ": record '00000002': " + cases[i].second);
  }
}

// Batches of one image have its size, as in Caffe, but all have the same channels.
TEST_F(DataLayerTest, ABatchOfOneImageHasItsSize) {
  const auto png = [](int channels, int height) {
    const Image pixels = test::SmoothPixels(channels, height, 5, height);
    return test::EncodedDatum(height, test::EncodePng(pixels, {channels == 1 ? 0 : 2}));
  };
  test::WriteDb(folder_ / "sizes", {png(3, 6), png(3, 9), png(3, 2), png(1, 6)});
  DataService service{DataOptions()};
  Instance instance(LayerOver(folder_ / "sizes", 1), &service);
  EXPECT_TRUE(instance.layer().ReshapesInForward());
  for (const int height : {6, 9, 2}) {
    instance.Forward();
    ASSERT_EQ(instance.data.shape(), Shape({1, 3, height, 5}));
    EXPECT_EQ(instance.Labels(), std::vector<int>{height});
    const Image pixels = test::SmoothPixels(3, height, 5, height);
    EXPECT_EQ(instance.data.data()[0], static_cast<float>(pixels.values[2]));  // blue
  }
  EXPECT_CONTAINS(test::ErrorOf([&] { instance.Forward(); }),
                  "record '00000003': has 1 channels, expected 3 like the first record");
  // With a mean image, all need its size.
  caffe::LayerParameter param = LayerOver(folder_ / "sizes", 1);
  caffe::BlobProto mean;
  mean.set_num(1), mean.set_channels(3), mean.set_height(6), mean.set_width(5);
  mean.mutable_data()->Resize(90, 1.0f);
  SaveBinary(folder_ / "mean.binaryproto", mean);
  param.mutable_transform_param()->set_mean_file(folder_ / "mean.binaryproto");
  DataService other{DataOptions()};
  Instance with_mean(param, &other);
  EXPECT_FALSE(with_mean.layer().ReshapesInForward());
}

TEST_F(DataLayerTest, WorksWithoutALabelTop) {
  DataService service{DataOptions()};
  Instance instance(LayerOver(path_, 4), &service, 1);
  instance.Forward();
  EXPECT_EQ(instance.data.shape(), Shape({4, 1, 2, 3}));
  EXPECT_EQ(instance.data.data()[6], 31.0f);  // first byte of the second record
}

TEST_F(DataLayerTest, SharesOneStreamAmongAllSolvers) {
  // 100 batches of one record: many more than the test takes or prefetches.
  test::WriteLabels(folder_ / "hundred", 100);
  const caffe::LayerParameter param = LayerOver(folder_ / "hundred", 1);
  DataService service{DataOptions()};
  Instance one(param, &service), two(param, &service);
  std::set<int> labels;
  for (int pass = 0; pass < 3; ++pass) {
    for (Instance* instance : {&one, &two}) {
      instance->Forward();
      labels.insert(instance->Labels()[0]);
    }
  }
  EXPECT_EQ(labels.size(), 6u);
  const auto positions = service.Positions("train");
  ASSERT_EQ(positions.size(), 1u);
  EXPECT_EQ(positions[0].layer(), "digits");
}

TEST_F(DataLayerTest, ReadsNothingAheadBeforeTheFirstForward) {
  DataService service{DataOptions()};
  const caffe::LayerParameter param = LayerOver(path_, 4);
  Instance instance(param, &service);
  EXPECT_EQ(service.Open("train", param)->batches_read(), 0u);
  EXPECT_EQ(service.Positions("train")[0].next_batch(), 0u);
}

// Batches that the stream of `service` counts as consumed.
std::set<uint64_t> Consumed(const DataService& service) {
  const caffe::StreamPosition position = service.Positions("train")[0];
  std::set<uint64_t> consumed;
  for (uint64_t i = 0; i < position.next_batch(); ++i) consumed.insert(i);
  for (uint64_t number : position.outstanding()) consumed.erase(number);
  return consumed;
}

TEST_F(DataLayerTest, MarksBatchesConsumedAtTheNextForwardOrAtTheEndOfAnIteration) {
  DataService service{DataOptions()};
  Instance instance(LayerOver(path_, 4), &service);
  instance.Forward();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({}));
  instance.Forward();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({0}));
  instance.layer().EndIteration();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({0, 1}));
  EXPECT_EQ(instance.Labels()[0], 4);  // the tops are unchanged
  instance.layer().EndIteration();
  instance.Forward();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({0, 1}));
}

TEST_F(DataLayerTest, MarksAllPassesOfAnIterationTogetherOnceIterationsAreCounted) {
  DataService service{DataOptions()};
  Instance instance(LayerOver(path_, 4), &service);
  instance.layer().EndIteration();
  for (int pass = 0; pass < 3; ++pass) instance.Forward();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({}));
  instance.layer().EndIteration();
  EXPECT_EQ(Consumed(service), std::set<uint64_t>({0, 1, 2}));
}

// Takes batches with `solvers` layers until each has made `passes` passes, completes the last pass
// of each, and counts the labels.
void TrainAll(DataService* service, const caffe::LayerParameter& param, int solvers, int passes,
              std::map<int, int>* trained) {
  std::mutex mutex;
  ErrorSink errors;
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < solvers; ++i) {
    threads.push_back(std::make_unique<Thread>(
        "solver",
        [&] {
          Instance instance(param, service);
          for (int pass = 0; pass < passes; ++pass) {
            instance.Forward();
            std::lock_guard lock(mutex);
            for (int label : instance.Labels()) ++(*trained)[label];
          }
          instance.layer().EndIteration();
        },
        &errors));
  }
  for (auto& thread : threads) thread->Join();
  EXPECT_NO_THROW(errors.RethrowIfFailed());
}

TEST_F(DataLayerTest, ResumesExactlyWithAnotherNumberOfSolvers) {
  // 100 records in batches of 1: 2 x 13, 4 x 11 and 1 x 30 batches are one epoch, however many
  // prefetched batches are discarded at each stop.
  const std::string path = folder_ / "hundred";
  test::WriteLabels(path, 100);
  caffe::LayerParameter param = LayerOver(path, 1);
  param.mutable_data_param()->set_shuffle(true);
  DataOptions options;
  options.seed = test::Seed();
  std::map<int, int> trained;
  std::vector<caffe::StreamPosition> positions;
  for (const auto& [solvers, passes] :
       std::vector<std::pair<int, int>>{{2, 13}, {4, 11}, {1, 30}}) {
    DataService service(options);
    service.Restore("train", positions);
    TrainAll(&service, param, solvers, passes, &trained);
    positions = service.Positions("train");
  }
  EXPECT_EQ(trained.size(), 100u);
  for (const auto& [label, times] : trained) EXPECT_EQ(times, 1) << label;
}

TEST_F(DataLayerTest, RepeatsItsRandomChoicesAfterAResume) {
  test::WriteDb(folder_ / "large", {test::ByteDatum(0, 1, 30, 30), test::ByteDatum(1, 1, 30, 30)});
  caffe::LayerParameter param = LayerOver(folder_ / "large", 2);
  param.mutable_transform_param()->set_crop_size(10);
  param.mutable_transform_param()->set_mirror(true);
  DataOptions options;
  options.seed = test::Seed();
  const auto pass = [&](DataService* service) {
    Instance instance(param, service);
    std::vector<std::vector<float>> passes;
    for (int i = 0; i < 3; ++i) {
      instance.Forward();
      passes.emplace_back(instance.data.data(), instance.data.data() + instance.data.count());
    }
    return passes;
  };
  DataService before(options), after(options);
  const auto first = pass(&before);
  EXPECT_NE(first[0], first[1]);  // another epoch has other crops
  auto positions = before.Positions("train");
  ASSERT_EQ(positions[0].next_batch(), 2u);  // the third pass was not marked as consumed
  after.Restore("train", positions);
  EXPECT_EQ(pass(&after)[0], first[2]);
}

TEST_F(DataLayerTest, IsDestroyedInAnyStateWithoutHanging) {
  for (uint32_t prefetch : {1, 4}) {
    caffe::LayerParameter param = LayerOver(path_, 4);
    param.mutable_data_param()->set_prefetch(prefetch);
    DataService service{DataOptions()};
    Instance never_used(param, &service);
    for (int i = 0; i < 30; ++i) {  // the ring is filling, full, or waiting for a reader
      Instance instance(param, &service);
      for (int pass = 0; pass < i % 4; ++pass) instance.Forward();
    }
    service.Stop();
  }
  // The service is destroyed before the layer.
  auto service = std::make_unique<DataService>(DataOptions());
  Instance instance(LayerOver(path_, 4), service.get());
  instance.Forward();
  service.reset();
}

TEST_F(DataLayerTest, StopEndsSolversThatWaitForData) {
  for (int round = 0; round < 20; ++round) {
    DataService service{DataOptions()};
    ErrorSink errors;
    std::atomic<int> passes(0);
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 2; ++i) {
      threads.push_back(std::make_unique<Thread>(
          "solver",
          [&] {
            Instance instance(LayerOver(path_, 4), &service);
            for (;;) {
              instance.Forward();
              ++passes;
            }
          },
          &errors));
    }
    while (passes < round) boost::this_thread::yield();
    service.Stop();
    for (auto& thread : threads) thread->Join();
    EXPECT_FALSE(errors.failed());
  }
}

TEST_F(DataLayerTest, ForwardThrowsWhatIsWrongWithARecordAndTheSinkKnows) {
  const auto bad_db = [&](const std::string& name, const std::string& bad) {
    std::vector<std::string> values;
    for (int i = 0; i < 10; ++i) values.push_back(test::ByteDatum(i).SerializeAsString());
    values[7] = bad;
    test::WriteRawDb(folder_ / name, values);
    return folder_ / name;
  };
  caffe::Datum encoded = test::ByteDatum(7);
  encoded.set_encoded(true);
  encoded.set_data("BM");
  const std::pair<std::string, std::string> cases[] = {
      {bad_db("garbage", "garbage"), "is not a Datum"},
      {bad_db("encoded", encoded.SerializeAsString()), "is a BMP file"},
      {bad_db("size", test::ByteDatum(7, 1, 3, 2).SerializeAsString()),
       "is 1 x 3 x 2, expected 1 x 2 x 3 like the first record"}};
  for (const auto& [path, what] : cases) {
    ErrorSink errors;
    DataOptions options;
    options.errors = &errors;
    DataService service(options);
    Instance instance(LayerOver(path, 5), &service);
    instance.Forward();  // the batches before the damaged one are valid
    const std::string message = path + ": record '00000007': " + what;
    EXPECT_CONTAINS(test::ErrorOf([&] { instance.Forward(); }), message);
    EXPECT_CONTAINS(test::ErrorOf([&] { instance.Forward(); }), message);
    service.Stop();
    while (!errors.failed()) boost::this_thread::yield();
    EXPECT_CONTAINS(test::ErrorOf([&] { errors.RethrowIfFailed(); }), message);
  }
}

TEST_F(DataLayerTest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(SetUpError(LayerOver(path_, 4)), "");
  EXPECT_EQ(SetUpError(LayerOver(path_, 0)), "data_param.batch_size: is 0, expected 1 to 1048576");
  caffe::LayerParameter param = LayerOver(path_, 4);
  param.mutable_data_param()->clear_batch_size();
  EXPECT_CONTAINS(SetUpError(param), "data_param.batch_size: is missing");
  param = LayerOver(path_, 4);
  param.mutable_data_param()->set_prefetch(0);
  EXPECT_CONTAINS(SetUpError(param), "data_param.prefetch: is 0, expected 1 to ");
  param = LayerOver(path_, 4);
  param.mutable_data_param()->clear_source();
  EXPECT_CONTAINS(SetUpError(param), "data_param.source: is missing");
  param = LayerOver(path_, 4);
  param.mutable_data_param()->add_source("nowhere");
  EXPECT_CONTAINS(SetUpError(param), "data_param.source[1]: nowhere: No such file");
  param = LayerOver(path_, 4);
  param.mutable_data_param()->set_force_encoded_color(true);
  param.mutable_transform_param()->set_force_gray(true);
  EXPECT_CONTAINS(SetUpError(param), "data_param.force_encoded_color: is given together with");
  param.mutable_data_param()->clear_force_encoded_color();
  EXPECT_EQ(SetUpError(param), "");  // on raw records
  param.mutable_transform_param()->set_force_color(true);
  EXPECT_CONTAINS(SetUpError(param), "transform_param.force_gray: is given together");
  param = LayerOver(path_, 4);
  param.mutable_transform_param()->set_crop_size(3);
  EXPECT_CONTAINS(SetUpError(param), "transform_param.crop_size: ");
  test::WriteRawDb(folder_ / "raw", {"garbage"});
  EXPECT_CONTAINS(SetUpError(LayerOver(folder_ / "raw", 4)),
                  "data_param.source: " + folder_ / "raw: record '00000000': is not a Datum");
}

TEST_F(DataLayerTest, OpensWhatTheFolderHoldsUnlessTheBackendSaysOtherwise) {
  caffe::LayerParameter param = LayerOver(path_, 4);
  param.mutable_data_param()->clear_backend();
  EXPECT_EQ(SetUpError(param), "");
  param.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
  EXPECT_EQ(SetUpError(param),
            "data_param.backend: is LEVELDB, but " + path_ + " is a database of backend LMDB");
  LevelDbWriter writer(folder_ / "level");
  for (int i = 0; i < 20; ++i) writer.Add(test::KeyOf(i), test::ByteDatum(i).SerializeAsString());
  writer.Commit();
  param = LayerOver(folder_ / "level", 4);
  EXPECT_CONTAINS(SetUpError(param), "data_param.backend: is LMDB, but ");
  param.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
  EXPECT_EQ(SetUpError(param), "");
  param.mutable_data_param()->clear_backend();
  DataService service{DataOptions()};
  Instance instance(param, &service);
  for (int pass = 0; pass < 6; ++pass) {
    instance.Forward();
    for (int n = 0; n < 4; ++n) EXPECT_EQ(instance.Labels()[n], (pass * 4 + n) % 20);
  }
  param.mutable_data_param()->set_source(0, folder_ / "none");
  param.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
  EXPECT_CONTAINS(SetUpError(param), "expected a LevelDB database folder");
  param.mutable_data_param()->clear_backend();
  EXPECT_CONTAINS(SetUpError(param),
                  "none: No such file or directory; expected the folder of an "
                  "LMDB (with a data.mdb) or of a LevelDB");
  param.mutable_data_param()->set_source(0, folder_ / "");
  EXPECT_CONTAINS(SetUpError(param), ": holds no database; expected the folder of an LMDB");
}

TEST_F(DataLayerTest, MakesColourOfGreyImagesIfForceEncodedColorSaysSo) {
  test::WriteDb(folder_ / "gray",
                {test::EncodedDatum(1, test::EncodeJpeg(test::SmoothPixels(1, 6, 5)))});
  caffe::LayerParameter param = LayerOver(folder_ / "gray", 1);
  DataService service{DataOptions()};
  EXPECT_EQ(Instance(param, &service).data.dim(1), 1);
  param.mutable_data_param()->set_force_encoded_color(true);
  EXPECT_EQ(Instance(param, &service).data.dim(1), 3);
}

TEST_F(DataLayerTest, RefusesANetThatReadsNoData) {
  EXPECT_CONTAINS(test::ErrorOf([&] { Instance(LayerOver(path_, 4), nullptr); }), "reads no data");
}

}  // namespace
}  // namespace millrace
