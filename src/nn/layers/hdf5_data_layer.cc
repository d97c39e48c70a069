#include "nn/layers/hdf5_data_layer.h"

#include "data/hdf5/hdf5_source.h"
#include "data/row_transform.h"

namespace millrace::inline nn {

std::unique_ptr<BatchTransform> Hdf5DataLayer::MakeTransform(const BatchStream& stream) {
  const auto& source = dynamic_cast<const Hdf5Source&>(stream.source(0));
  return PerRecord(std::make_unique<RowTransform>(source.row_shapes()), stream.batch_size());
}

namespace {
const RegisterLayer<Hdf5DataLayer> registered("HDF5Data");
}  // namespace

}  // namespace millrace::inline nn
