#include "nn/layers/hdf5_output_layer.h"

namespace millrace::inline nn {
namespace {

constexpr int kAxes = 4;

Shape WithFourAxes(const Blob& blob) {
  Shape shape = blob.shape();
  shape.resize(kAxes, 1);
  return shape;
}

}  // namespace

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

namespace {
const RegisterLayer<Hdf5OutputLayer> registered("HDF5Output");
}  // namespace

}  // namespace millrace::inline nn
