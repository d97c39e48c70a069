// Writes its bottoms to an HDF5 file: bottom[0] as dataset "data", bottom[1] as dataset "label",
// both with four axes, N x C x H x W, where axes that a bottom lacks are 1. Every Forward appends
// its rows. (Caffe fails in the second one.) The layer's set-up empties the file; all solvers of a
// process write to one file.
#ifndef MILLRACE_NN_LAYERS_HDF5_OUTPUT_LAYER_H_
#define MILLRACE_NN_LAYERS_HDF5_OUTPUT_LAYER_H_

#include <memory>

#include "data/hdf5/hdf5_writer.h"
#include "millrace/layer.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_HDF5_OUTPUT_LAYER_H_
