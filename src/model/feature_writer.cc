#include "model/feature_writer.h"

#include <cstdio>

#include "base/error.h"
#include "data/hdf5/hdf5_writer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline model {
namespace {

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

}  // namespace

std::unique_ptr<FeatureWriter> MakeDatabaseFeatures(const std::string& path, DatabaseKind kind,
                                                    const std::string& blob) {
  return std::make_unique<DatabaseFeatures>(path, kind, blob);
}

std::unique_ptr<FeatureWriter> MakeHdf5Features(const std::string& path, const std::string& blob) {
  return std::make_unique<Hdf5Features>(path, blob);
}

}  // namespace millrace::inline model
