// Images a second from LMDBs in the page cache to transformed batches, as solvers get them, beside
// what bounds them: a walk over the database with LMDB's own cursor, and libjpeg-turbo alone. The
// solvers only take batches; each has its prefetch thread, and one reader serves all. Prints the
// medians of rounds that take turns. Then the same of one solver that takes its batches from a
// minibatch service (docs/serve_data.md): in shared memory, over a connection on loopback, and over
// a link of 1 Gbit/s between two namespaces (as root); and bodies of a batch's size by the control
// service's HTTP. Beside them the processor time of all threads, of the service's too, for each
// image.
// --seconds=S (0.5) of each measurement, --rounds=N (5); --only=TEXT measures the records whose
// name contains it, --near nothing but local reading and the service in shared memory.
#include <gflags/gflags.h>

#include <algorithm>
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
#include "bench/data_bench/service.h"
#include "bench/measure.h"
#include "data/data_service.h"
#include "data/images/image_encoder.h"
#include "data/lmdb_database.h"
#include "millrace/layer.h"
#include "proto/parse.h"

DEFINE_double(seconds, 0.5, "of each measurement");
DEFINE_int32(rounds, 5, "the medians of so many");
DEFINE_string(only, "", "measure the records whose name contains this");
DEFINE_bool(near, false, "measure only local reading and the service in shared memory");

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
    one.push_back(BatchRate(param, 1, FLAGS_seconds).images);
    two.push_back(BatchRate(param, 2, FLAGS_seconds).images);
  }
  std::printf("%-24s %12.0f %12s %12.0f %12.0f", row.name.c_str(), Median(walk),
              decode.empty() ? "-" : std::to_string(std::lround(Median(decode))).c_str(),
              Median(one), Median(two));
  if (!decode.empty()) std::printf("   %.2f of decoding alone", Median(one) / Median(decode));
  std::printf("\n");
}

void MeasureService(const Row& row) {
  const caffe::LayerParameter param = LayerOver(row.path, row.transform);
  const uint64_t bytes = BatchBytes(param);
  const double images = param.data_param().batch_size();
  std::vector<double> local, memory, loopback, http, link, local_us, memory_us, ratio;
  for (int round = 0; round < FLAGS_rounds; ++round) {
    const Rate alone = BatchRate(param, 1, FLAGS_seconds);
    const Rate served = ServedRate(param, Path::kMemory, FLAGS_seconds);
    local.push_back(alone.images);
    memory.push_back(served.images);
    local_us.push_back(alone.processor_us);
    memory_us.push_back(served.processor_us);
    ratio.push_back(served.images / alone.images);
    if (FLAGS_near) continue;
    loopback.push_back(ServedRate(param, Path::kLoopback, FLAGS_seconds).images);
    http.push_back(images * HttpRate(bytes, FLAGS_seconds));
    if (WhyNoLink().empty()) link.push_back(ServedRate(param, Path::kLink, FLAGS_seconds).images);
  }
  std::printf("%-24s %12.0f %12.0f", row.name.c_str(), Median(local), Median(memory));
  if (!FLAGS_near) std::printf(" %12.0f %12.0f", Median(loopback), Median(http));
  if (!link.empty()) {
    std::printf(" %12.0f   %.2f of 1 Gbit/s", Median(link),
                Median(link) / images * static_cast<double>(bytes) * 8 / 1e9);
  }
  std::printf(
      "   memory %.2f of local (rounds: %.2f to %.2f), processor us/image %.2f, local %.2f\n",
      Median(ratio), *std::min_element(ratio.begin(), ratio.end()),
      *std::max_element(ratio.begin(), ratio.end()), Median(memory_us), Median(local_us));
  std::fflush(stdout);
}

void Main() {
  const Folder folder;
  std::vector<Row> rows;
  const auto add = [&](const Row& row, int count, const std::function<caffe::Datum(int)>& datum) {
    if (row.name.find(FLAGS_only) == std::string::npos) return;
    WriteRecords(row.path, count, datum);
    rows.push_back(row);
  };
  add({"MNIST 1x28x28", folder / "mnist", "scale: 0.00390625", {}}, 60000,
      [](int i) { return RawDatum(1, 28, i); });
  add({"CIFAR 3x32x32", folder / "cifar", "mean_value: 120 mirror: true", {}}, 20000,
      [](int i) { return RawDatum(3, 32, i); });
  Row jpeg{"JPEG 3x256x256",
           folder / "jpeg",
           "crop_size: 227 mirror: true mean_value: 104 mean_value: 117 mean_value: 123",
           {}};
  for (int i = 0; i < 64; ++i) {
    jpeg.jpegs.push_back(EncodeImage(Photograph(256, i), ImageFormat::kJpeg));
  }
  add(jpeg, 1000, [&](int i) {
    caffe::Datum datum;
    datum.set_encoded(true);
    datum.set_data(jpeg.jpegs[i % jpeg.jpegs.size()]);
    return datum;
  });
  if (!FLAGS_near) {
    std::printf("images/s%16s %12s %12s %12s %12s\n", "", "cursor walk", "decode", "1 solver",
                "2 solvers");
    for (const Row& row : rows) Measure(row);
    std::printf("\n");
  }
  std::printf("images/s of a service%3s %12s %12s", "", "local", "memory");
  if (!FLAGS_near) std::printf(" %12s %12s %12s", "loopback", "HTTP", "1 Gbit/s");
  std::printf("\n");
  for (const Row& row : rows) MeasureService(row);
  const std::string reason = WhyNoLink();
  if (!FLAGS_near && !reason.empty())
    std::printf("the link was not measured: %s\n", reason.c_str());
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
