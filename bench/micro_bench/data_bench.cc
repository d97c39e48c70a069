// The data wing on one thread: records out of LMDB, records into floats.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "data/batch_stream.h"
#include "data/datum_view.h"
#include "data/images/image_transform.h"
#include "data/lmdb_database.h"
#include "data/prefetcher.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace millrace {
namespace {

std::string MakeRecord(int channels, int side) {
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(side);
  datum.set_width(side);
  datum.set_label(3);
  std::string bytes(static_cast<size_t>(channels) * side * side, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  datum.set_data(bytes);
  return datum.SerializeAsString();
}

void Transform(benchmark::State& state, const caffe::TransformationParameter& param, int channels,
               int side) {
  const std::string record = MakeRecord(channels, side);
  const DatumView view = ReadDatum("bench", "record", record);
  Transformer transformer(param, caffe::TRAIN, 1, 0, view);
  std::vector<float> out(transformer.output().count());
  uint64_t item = 0;
  for (auto _ : state) {
    transformer.Apply(view, item++, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(out.size() * sizeof(float)));
}

caffe::TransformationParameter ScaleOnly() {
  caffe::TransformationParameter param;
  param.set_scale(1.0f / 256);
  return param;
}

caffe::TransformationParameter CropMirrorMean() {
  caffe::TransformationParameter param;
  param.set_crop_size(227);
  param.set_mirror(true);
  for (const float mean : {104.0f, 117.0f, 123.0f}) param.add_mean_value(mean);
  return param;
}

BENCHMARK_CAPTURE(Transform, mnist_scale, ScaleOnly(), 1, 28);
BENCHMARK_CAPTURE(Transform, cifar_scale, ScaleOnly(), 3, 32);
BENCHMARK_CAPTURE(Transform, imagenet_crop_mirror_mean, CropMirrorMean(), 3, 256);

// A database of records of 3 x 32 x 32, removed at the end of the program.
class Database {
 public:
  static constexpr uint64_t kRecords = 20000;

  Database() : folder_(std::filesystem::temp_directory_path() / "millrace-bench-XXXXXX") {
    std::string name = folder_.string();
    if (!mkdtemp(name.data())) throw Error(name, ": cannot be made");
    folder_ = name;
    LmdbWriter writer(path());
    const std::string record = MakeRecord(3, 32);
    record_bytes_ = record.size();
    char key[16];
    for (uint64_t i = 0; i < kRecords; ++i) {
      std::snprintf(key, sizeof(key), "%08llu", static_cast<unsigned long long>(i));
      writer.Add(key, record);
    }
    writer.Commit();
  }
  ~Database() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return (folder_ / "lmdb").string(); }
  size_t record_bytes() const { return record_bytes_; }

 private:
  std::filesystem::path folder_;
  size_t record_bytes_ = 0;
};

// Whole batches from the reader thread, in the page cache.
void LmdbRead(benchmark::State& state) {
  static const Database database;
  BatchStreamOptions options;
  options.layer = "bench";
  options.sources = {LmdbDatabase::Open(database.path())};
  options.batch_size = 100;
  BatchStream stream(options);
  Batch batch;
  for (auto _ : state) {
    if (!stream.Next(&batch)) {
      state.SkipWithError("the stream ended");
      break;
    }
    stream.MarkConsumed(batch.number);
    benchmark::DoNotOptimize(batch.records.data());
  }
  stream.Stop();
  const auto records = state.iterations() * static_cast<int64_t>(options.batch_size);
  state.SetItemsProcessed(records);
  state.SetBytesProcessed(records * static_cast<int64_t>(database.record_bytes()));
}
BENCHMARK(LmdbRead)->UseRealTime();

// From the page cache to floats, or to bytes of which a device makes floats: a reader thread and a
// prefetch thread.
void LmdbFetch(benchmark::State& state, bool pixels) {
  static const Database database;
  BatchStreamOptions options;
  options.layer = "bench";
  options.sources = {LmdbDatabase::Open(database.path())};
  options.batch_size = state.range(0);
  const auto stream = std::make_shared<BatchStream>(options);
  const RecordView record = stream->FirstRecord();
  const Transformer transformer(ScaleOnly(), caffe::TRAIN, 1, 0,
                                ReadDatum("bench", record.key, record.value));
  {
    Prefetcher prefetcher(stream,
                          PerRecord(std::make_unique<ImageTransform>(PixelReader(), transformer),
                                    stream->batch_size()),
                          4, HostMemory(), 0, 1, pixels);
    for (auto _ : state) {
      ReadyBatch* const batch = prefetcher.Next();
      stream->MarkConsumed(batch->number);
      benchmark::DoNotOptimize(batch->data(0));
      prefetcher.Recycle(batch);
    }
  }
  stream->Stop();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(LmdbFetch, floats, false)->Arg(10)->Arg(100)->UseRealTime();
BENCHMARK_CAPTURE(LmdbFetch, bytes, true)->Arg(10)->Arg(100)->UseRealTime();

}  // namespace
}  // namespace millrace
