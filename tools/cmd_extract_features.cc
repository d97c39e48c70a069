// millrace extract_features: stores blobs of a net, with its own flags or Caffe's arguments.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include "base/error.h"
#include "base/text/parse.h"
#include "model/extract_features.h"
#include "model/loaded_net.h"
#include "nn/net_text.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "train/choose_gpus.h"

DECLARE_string(backend);
DECLARE_string(output);
DEFINE_string(blobs, "", "the blobs to store, separated by commas");

namespace millrace {
namespace {

constexpr char kUsage[] =
    "none beside the flags, or as in Caffe: the weights, the net, the blobs, the databases, the "
    "number of batches, the kind of database, and then perhaps CPU, or GPU and its number";

// Caffe's arguments as flags; returns the databases.
std::vector<std::string> TakeCaffeArguments(const std::vector<std::string>& arguments) {
  if (arguments.size() < 6 || arguments.size() > 8) ExpectArguments(arguments, 6, kUsage);
  FLAGS_weights = arguments[0];
  FLAGS_model = arguments[1];
  FLAGS_blobs = arguments[2];
  const auto batches = ParseNumber<int32_t>(arguments[4]);
  if (!batches) throw Error("'", arguments[4], "' given, expected the number of batches");
  FLAGS_iterations = *batches;
  FLAGS_backend = arguments[5];
  if (arguments.size() > 6) {
    if (arguments[6] == "GPU") {
      FLAGS_gpu = arguments.size() > 7 ? arguments[7] : "0";
    } else if (arguments[6] != "CPU") {
      throw Error("'", arguments[6], "' given after the kind of database, expected CPU or GPU");
    }
  }
  return SplitList(arguments[3]);
}

std::vector<FeatureOutput> OutputsOf(const std::vector<std::string>& paths) {
  std::vector<FeatureOutput> outputs;
  for (const std::string& blob : SplitList(FLAGS_blobs)) {
    outputs.push_back({blob, ""});
    if (paths.empty()) outputs.back().path = FeaturePath(FLAGS_output, blob, FLAGS_backend);
  }
  if (outputs.empty()) throw Error("--blobs=", FLAGS_blobs, ": names no blob");
  if (paths.empty()) return outputs;
  if (paths.size() != outputs.size()) {
    throw Error(outputs.size(), " blobs and ", paths.size(), " databases given, expected one each");
  }
  for (size_t i = 0; i < paths.size(); ++i) outputs[i].path = paths[i];
  return outputs;
}

int RunExtractFeatures(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  if (!arguments.empty()) {
    paths = TakeCaffeArguments(arguments);
  } else {
    RequireFlag("output", FLAGS_output);
  }
  RequireFlag("model", FLAGS_model);
  RequireFlag("weights", FLAGS_weights);
  RequireFlag("blobs", FLAGS_blobs);
  if (FLAGS_iterations < 1) throw Error("--iterations=", FLAGS_iterations, ": expected at least 1");
  const std::vector<FeatureOutput> outputs = OutputsOf(paths);
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  LoadedNet loaded(param, source, NetStateFromFlags(param, caffe::TEST), FLAGS_weights,
                   &ChooseDevice(FLAGS_gpu));
  const std::vector<int64_t> records =
      ExtractFeatures(&loaded.net(), outputs, FLAGS_backend, FLAGS_iterations);
  for (size_t i = 0; i < outputs.size(); ++i) {
    LOG(INFO) << "Wrote " << records[i] << " records of blob " << outputs[i].blob << " to "
              << outputs[i].path;
  }
  return 0;
}

const RegisterCommand registered_extract_features(
    {"extract_features",
     "[WEIGHTS NET BLOBS DATABASES BATCHES BACKEND [CPU|GPU [NUMBER]]]",
     "stores blobs of a net in databases or HDF5 files",
     {"model", "weights", "blobs", "output", "iterations", "backend", "gpu", "phase", "level",
      "stage", "plugins"},
     RunExtractFeatures});

}  // namespace
}  // namespace millrace
