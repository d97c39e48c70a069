#include "device/cuda_kernel.h"
#include "nn/layers/tile_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<TileGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
