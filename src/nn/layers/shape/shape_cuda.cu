#include "device/cuda_kernel.h"
#include "nn/layers/shape/copy_kernels.h"
#include "nn/layers/shape/row_index_kernels.h"
#include "nn/layers/shape/tile_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<CopyParts<float, true>, CopyParts<float, false>,
                          CopyParts<ElementPack, true>, CopyParts<ElementPack, false>>
    part_copy;

const RegisterCudaKernels<GatherRows, LinkEqualRows, MarkFirstRows, AddGatheredRows,
                          CountInvalidRows>
    row_gather;

const RegisterCudaKernels<CopyElements, CopyRows> strided_copy;

const RegisterCudaKernels<TileGradient> tile;

}  // namespace
}  // namespace millrace::inline nn
