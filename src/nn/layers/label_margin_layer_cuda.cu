#include "device/cuda_kernel.h"
#include "nn/layers/label_margin_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LabelMarginForward<AddedMargin>, LabelMarginBackward<AddedMargin>,
                          LabelMarginForward<AngleMargin>, LabelMarginBackward<AngleMargin>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
