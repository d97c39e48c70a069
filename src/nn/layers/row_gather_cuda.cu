#include "device/cuda_kernel.h"
#include "nn/layers/row_index_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<GatherRows, LinkEqualRows, MarkFirstRows, AddGatheredRows,
                          CountInvalidRows>
    registered;

}  // namespace
}  // namespace millrace::inline nn
