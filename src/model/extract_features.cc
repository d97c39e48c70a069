#include "model/extract_features.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "model/feature_writer.h"
#include "nn/plain_values.h"

namespace millrace::inline model {
namespace {

constexpr char kHdf5[] = "hdf5";

void CheckBackend(const std::string& backend) {
  if (backend != "lmdb" && backend != "leveldb" && backend != kHdf5) {
    throw Error("--backend=", backend, ": expected lmdb, leveldb or hdf5");
  }
}

std::vector<Blob*> FindBlobs(const BuiltNet& net, const std::vector<FeatureOutput>& outputs) {
  std::vector<Blob*> blobs;
  for (const FeatureOutput& output : outputs) {
    Blob* const blob = net.FindBlob(output.blob);
    if (blob == nullptr) throw Error("the net has no blob '", output.blob, "'");
    blobs.push_back(blob);
  }
  return blobs;
}

std::vector<std::unique_ptr<FeatureWriter>> MakeWriters(const std::vector<FeatureOutput>& outputs,
                                                        const std::string& backend) {
  std::set<std::pair<std::string, std::string>> targets;
  std::vector<std::unique_ptr<FeatureWriter>> writers;
  for (const FeatureOutput& output : outputs) {
    // A database holds one blob, an HDF5 file one dataset of a name.
    if (!targets.emplace(output.path, backend == kHdf5 ? output.blob : "").second) {
      throw Error(output.path, ": given for two blobs, expected a path for each");
    }
    writers.push_back(backend == kHdf5 ? MakeHdf5Features(output.path, output.blob)
                                       : MakeDatabaseFeatures(
                                             output.path, ParseDatabaseKind(backend), output.blob));
  }
  return writers;
}

}  // namespace

std::vector<int64_t> ExtractFeatures(BuiltNet* net, const std::vector<FeatureOutput>& outputs,
                                     const std::string& backend, int batches) {
  CheckBackend(backend);
  const std::vector<Blob*> blobs = FindBlobs(*net, outputs);
  const std::vector<std::unique_ptr<FeatureWriter>> writers = MakeWriters(outputs, backend);
  std::vector<int64_t> records(outputs.size(), 0);
  for (int batch = 0; batch < batches; ++batch) {
    net->set_pass(batch);
    net->Forward();
    net->EndIteration();
    net->queue().Synchronize();
    for (size_t i = 0; i < blobs.size(); ++i) {
      const Shape& shape = blobs[i]->shape();
      writers[i]->Add(shape, PlainData(*blobs[i]));
      records[i] += shape.empty() ? 1 : shape[0];
    }
  }
  for (const auto& writer : writers) writer->Commit();
  return records;
}

std::string FeaturePath(const std::string& prefix, const std::string& blob,
                        const std::string& backend) {
  if (backend == kHdf5) return prefix.ends_with(".h5") ? prefix : prefix + ".h5";
  std::string name = blob;
  std::replace(name.begin(), name.end(), '/', '_');
  return prefix + "_" + name;
}

}  // namespace millrace::inline model
