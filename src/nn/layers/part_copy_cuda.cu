#include "device/cuda_kernel.h"
#include "nn/layers/part_copy_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<CopyParts<float, true>, CopyParts<float, false>,
                          CopyParts<ElementPack, true>, CopyParts<ElementPack, false>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
