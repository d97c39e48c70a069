#include "model/extract_features.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/database.h"
#include "data/hdf5/hdf5_writer.h"
#include "millrace/blob.h"
#include "nn/plain_values.h"
#include "proto/caffe.pb.h"

namespace millrace::inline model {
namespace {

// Where the values of a blob go, batch by batch.

// Used by one thread.
class FeatureWriter {
 public:
  virtual ~FeatureWriter() = default;
  FeatureWriter(const FeatureWriter&) = delete;
  FeatureWriter& operator=(const FeatureWriter&) = delete;

  // Adds a blob of one batch: `values` of `shape`, row-major, whose first axis counts records. A
  // scalar is one record. Throws Error naming the file.
  virtual void Add(const Shape& shape, const std::vector<float>& values) = 0;
  // Completes the file. Nothing may be added afterwards.
  virtual void Commit() = 0;

 protected:
  FeatureWriter() = default;
};

class DatabaseFeatures : public FeatureWriter {
 public:
  DatabaseFeatures(const std::string& path, DatabaseKind kind, std::string blob)
      : blob_(std::move(blob)), writer_(CreateDatabase(path, kind)) {}

  void Add(const Shape& shape, const std::vector<float>& values) override {
    if (shape.size() > 4) {
      throw Error(writer_->path(), ": blob '", blob_, "' has the shape ", ShapeText(shape),
                  ", expected at most 4 axes for a database; HDF5 files hold any number");
    }
    const auto dim = [&](size_t axis) { return axis < shape.size() ? shape[axis] : 1; };
    const auto size = static_cast<size_t>(dim(1) * dim(2) * dim(3));
    caffe::Datum datum;
    datum.set_channels(static_cast<int>(dim(1)));
    datum.set_height(static_cast<int>(dim(2)));
    datum.set_width(static_cast<int>(dim(3)));
    for (const float* record = values.data(); record < values.data() + dim(0) * size;
         record += size) {
      datum.mutable_float_data()->Assign(record, record + size);
      datum.SerializeToString(&buffer_);
      char key[24];
      std::snprintf(key, sizeof(key), "%010lld", static_cast<long long>(records_++));
      writer_->Add(key, buffer_);
    }
  }
  void Commit() override { writer_->Commit(); }

 private:
  const std::string blob_;
  const std::unique_ptr<DatabaseWriter> writer_;
  int64_t records_ = 0;
  std::string buffer_;
};

class Hdf5Features : public FeatureWriter {
 public:
  Hdf5Features(const std::string& path, std::string blob)
      : blob_(std::move(blob)), writer_(Hdf5Writer::Open(path)) {}

  void Add(const Shape& shape, const std::vector<float>& values) override {
    writer_->Append({{blob_, shape.empty() ? Shape{1} : shape, values.data()}});
  }
  void Commit() override { writer_.reset(); }

 private:
  const std::string blob_;
  std::shared_ptr<Hdf5Writer> writer_;
};

// A database of Datums with channels, height, width and float_data. As in Caffe's extract_features,
// the keys are the numbers of the records, of 10 digits, and axes that a blob lacks have size 1.
// Blobs with more than 4 axes are refused: a Datum has no place for them. `blob`: for errors.
std::unique_ptr<FeatureWriter> MakeDatabaseFeatures(const std::string& path, DatabaseKind kind,
                                                    const std::string& blob) {
  return std::make_unique<DatabaseFeatures>(path, kind, blob);
}

// The dataset `blob` of an HDF5 file, with the axes of the blob. Several blobs may go to one file.
// A '/' in the name makes a group.
std::unique_ptr<FeatureWriter> MakeHdf5Features(const std::string& path, const std::string& blob) {
  return std::make_unique<Hdf5Features>(path, blob);
}

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
