// Batches of rows of HDF5 files.
//
//   top[i]  N x the shape of a row of the dataset that is named like the top
//
// `source` is a list of files, whose paths are relative to the working directory, or else to the
// list. Rows come in order, file after file, and a batch may continue in the next file. With
// `shuffle`, every epoch has a random order of the files, and of the rows in each file.
#ifndef MILLRACE_NN_LAYERS_HDF5_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_HDF5_DATA_LAYER_H_

#include <limits>
#include <memory>

#include "nn/layers/batch_data_layer.h"

namespace millrace::inline nn {

class Hdf5DataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  // No transform_param, as in Caffe: the values are used as they are.
  std::set<std::string> fields() const override { return {"hdf5_data_param", "data_param"}; }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_HDF5_DATA_LAYER_H_
