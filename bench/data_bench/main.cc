// Images a second from LMDBs in the page cache to transformed batches, as solvers get them, beside
// what bounds them: a walk over the database with LMDB's own cursor, and libjpeg-turbo alone. The
// solvers only take batches; each has its prefetch thread, and one reader serves all. Prints the
// medians of rounds that take turns. --seconds=S (0.5) of each measurement, --rounds=N (5).
#include <gflags/gflags.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "bench/data_bench/bounds.h"
#include "bench/measure.h"
#include "data/data_service.h"
#include "data/images/image_encoder.h"
#include "data/lmdb_database.h"
#include "millrace/layer.h"
#include "proto/parse.h"

DEFINE_double(seconds, 0.5, "of each measurement");
DEFINE_int32(rounds, 5, "the medians of so many");

namespace millrace::bench {
namespace {

// Smooth shapes with noise, which compress like photographs.
Image Photograph(int side, uint64_t seed) {
  Rng rng(seed, {1});
  Image image{3, side, side, std::vector<uint8_t>(size_t(3) * side * side)};
  const float fx = 3 + 9 * rng.Uniform(), fy = 3 + 9 * rng.Uniform();
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const float wave = std::sin(fx * static_cast<float>(x) / static_cast<float>(side)) *
                           std::cos(fy * static_cast<float>(y) / static_cast<float>(side));
        const float value = 128 + 60 * wave + 25 * static_cast<float>(c - 1) + 4 * rng.Gaussian();
        image.values[(size_t(c) * side + y) * side + x] =
            static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, value)));
      }
    }
  }
  return image;
}

caffe::Datum RawDatum(int channels, int side, uint64_t seed) {
  Rng rng(seed, {2});
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(side);
  datum.set_width(side);
  std::string bytes(size_t(channels) * side * side, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.Next());
  datum.set_data(std::move(bytes));
  return datum;
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "data-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error(name, ": cannot be made");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteRecords(const std::string& path, int count,
                  const std::function<caffe::Datum(int)>& datum) {
  LmdbWriter writer(path);
  char key[16];
  for (int i = 0; i < count; ++i) {
    std::snprintf(key, sizeof(key), "%08d", i);
    caffe::Datum record = datum(i);
    record.set_label(i % 10);
    writer.Add(key, record.SerializeAsString());
  }
  writer.Commit();
}

// Images a second that so many solvers take together.
double BatchRate(const caffe::LayerParameter& param, int solvers, double seconds) {
  DataService service{DataOptions()};
  std::vector<double> images(static_cast<size_t>(solvers));
  std::vector<std::jthread> threads;
  for (int i = 0; i < solvers; ++i) {
    threads.emplace_back([&, i] {
      LayerContext context;
      context.data = &service;
      context.data_consumer = i;
      context.data_scope = "train";
      const auto layer = LayerRegistry::Get().Create(param, context);
      Blob data, label;
      const Blobs tops = {&data, &label};
      layer->SetUp({}, tops);
      layer->Reshape({}, tops);
      for (int pass = 0; pass < 10; ++pass) layer->Forward({}, tops);
      const double begin = Seconds();
      double taken = 0, passes = 0;
      for (; (taken = Seconds() - begin) < seconds; ++passes) {
        layer->Forward({}, tops);
        layer->EndIteration();
      }
      images[static_cast<size_t>(i)] = passes * static_cast<double>(layer->batch_size()) / taken;
    });
  }
  threads.clear();  // joins
  double sum = 0;
  for (const double each : images) sum += each;
  return sum;
}

caffe::LayerParameter LayerOver(const std::string& path, const std::string& more) {
  caffe::LayerParameter param;
  ParseText("name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" + path +
                "' backend: LMDB batch_size: 64 } transform_param { " + more + " }",
            "layer", &param, nullptr);
  return param;
}

struct Row {
  std::string name, path, transform;
  std::vector<std::string> jpegs;  // empty: raw records
};

void Measure(const Row& row) {
  std::vector<double> walk, decode, one, two;
  for (int round = 0; round < FLAGS_rounds; ++round) {
    walk.push_back(WalkRate(row.path, FLAGS_seconds));
    if (!row.jpegs.empty()) decode.push_back(DecodeRate(row.jpegs, FLAGS_seconds));
    const caffe::LayerParameter param = LayerOver(row.path, row.transform);
    one.push_back(BatchRate(param, 1, FLAGS_seconds));
    two.push_back(BatchRate(param, 2, FLAGS_seconds));
  }
  std::printf("%-24s %12.0f %12s %12.0f %12.0f", row.name.c_str(), Median(walk),
              decode.empty() ? "-" : std::to_string(std::lround(Median(decode))).c_str(),
              Median(one), Median(two));
  if (!decode.empty()) std::printf("   %.2f of decoding alone", Median(one) / Median(decode));
  std::printf("\n");
}

void Main() {
  const Folder folder;
  Row mnist{"MNIST 1x28x28", folder / "mnist", "scale: 0.00390625", {}};
  WriteRecords(mnist.path, 60000, [](int i) { return RawDatum(1, 28, i); });
  Row cifar{"CIFAR 3x32x32", folder / "cifar", "mean_value: 120 mirror: true", {}};
  WriteRecords(cifar.path, 20000, [](int i) { return RawDatum(3, 32, i); });
  Row jpeg{"JPEG 3x256x256",
           folder / "jpeg",
           "crop_size: 227 mirror: true mean_value: 104 mean_value: 117 mean_value: 123",
           {}};
  for (int i = 0; i < 64; ++i) {
    jpeg.jpegs.push_back(EncodeImage(Photograph(256, i), ImageFormat::kJpeg));
  }
  WriteRecords(jpeg.path, 1000, [&](int i) {
    caffe::Datum datum;
    datum.set_encoded(true);
    datum.set_data(jpeg.jpegs[i % jpeg.jpegs.size()]);
    return datum;
  });
  std::printf("images/s%16s %12s %12s %12s %12s\n", "", "cursor walk", "decode", "1 solver",
              "2 solvers");
  for (const Row& row : {mnist, cifar, jpeg}) Measure(row);
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  try {
    millrace::bench::Main();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "data_bench: %s\n", error.what());
    return 1;
  }
}
