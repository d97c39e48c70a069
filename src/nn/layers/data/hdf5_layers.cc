// HDF5Data and HDF5Output.
#include <limits>
#include <memory>

#include "data/hdf5/hdf5_source.h"
#include "data/hdf5/hdf5_writer.h"
#include "data/row_transform.h"
#include "millrace/layer.h"
#include "nn/layers/data/batch_data_layer.h"

namespace millrace::inline nn {
namespace {

// Batches of rows of HDF5 files.
//
//   top[i]  N x the shape of a row of the dataset that is named like the top
//
// `source` is a list of files, whose paths are relative to the working directory, or else to the
// list. Rows come in order, file after file, and a batch may continue in the next file. With
// `shuffle`, every epoch has a random order of the files, and of the rows in each file.
class Hdf5DataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  // No transform_param, as in Caffe: the values are used as they are.
  std::set<std::string> fields() const override { return {"hdf5_data_param", "data_param"}; }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

std::unique_ptr<BatchTransform> Hdf5DataLayer::MakeTransform(const BatchStream& stream) {
  const auto& source = dynamic_cast<const Hdf5Source&>(stream.source(0));
  return PerRecord(std::make_unique<RowTransform>(source.row_shapes()), stream.batch_size());
}

const RegisterLayer<Hdf5DataLayer> hdf5_data("HDF5Data");

// Writes its bottoms to an HDF5 file: bottom[0] as dataset "data", bottom[1] as dataset "label",
// both with four axes, N x C x H x W, where axes that a bottom lacks are 1. Every Forward appends
// its rows. (Caffe fails in the second one.) The layer's set-up empties the file; all solvers of a
// process write to one file.

// Runs on every device: the values are copied to the host.
class Hdf5OutputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 0, 0}; }
  std::set<std::string> fields() const override { return {"hdf5_output_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Waits for the work before it. Throws Error if the file cannot be written.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  std::shared_ptr<Hdf5Writer> writer_;
};

constexpr int kAxes = 4;

Shape WithFourAxes(const Blob& blob) {
  Shape shape = blob.shape();
  shape.resize(kAxes, 1);
  return shape;
}

void Hdf5OutputLayer::SetUp(const Blobs&, const Blobs&) {
  const std::string& file = param_.hdf5_output_param().file_name();
  if (file.empty()) {
    throw FieldError("hdf5_output_param.file_name", "is missing, expected the file to write");
  }
  try {
    writer_ = Hdf5Writer::Open(file);
  } catch (const Error& error) {
    throw FieldError("hdf5_output_param.file_name", error.what());
  }
}

void Hdf5OutputLayer::Reshape(const Blobs& bottom, const Blobs&) {
  for (size_t i = 0; i < bottom.size(); ++i) {
    const int axes = bottom[i]->num_axes();
    if (axes < 1 || axes > kAxes) {
      throw FieldError(StrCat("bottom[", i, "]"), "has ", axes, " axes, expected 1 to ", kAxes);
    }
  }
  if (bottom[0]->dim(0) != bottom[1]->dim(0)) {
    throw FieldError("bottom[1]", "has ", bottom[1]->dim(0), " rows, expected ", bottom[0]->dim(0),
                     " as bottom[0]");
  }
}

void Hdf5OutputLayer::Forward(const Blobs& bottom, const Blobs&) {
  context_.queue->Synchronize();
  std::vector<float> data, label;
  writer_->Append({{"data", WithFourAxes(*bottom[0]), bottom[0]->DataOnHost(&data)},
                   {"label", WithFourAxes(*bottom[1]), bottom[1]->DataOnHost(&label)}});
}

const RegisterLayer<Hdf5OutputLayer> hdf5_output("HDF5Output");

}  // namespace
}  // namespace millrace::inline nn
