#include "contrib/detection/difference_loss_kernels.h"
#include "contrib/detection/focal_loss_kernels.h"
#include "contrib/detection/roi_align_kernels.h"
#include "contrib/detection/roi_kernels.h"
#include "device/cuda_kernel.h"

namespace millrace::inline contrib {
namespace {

const RegisterCudaKernels<LossParts<FocalTerms>, FocalBackward> focal_loss;

const RegisterCudaKernels<LossParts<L1Terms>, DifferenceBackward<L1Terms>> l1_loss;

const RegisterCudaKernels<LossParts<SmoothL1Terms>, SmoothL1OfPlaces,
                          DifferenceBackward<SmoothL1Terms>>
    smooth_l1_loss;

const RegisterCudaKernels<RoiMaxForward, RoiMaxGather, RoiSensitiveForward, RoiSensitiveGather,
                          RoiAlignForward, RoiAlignGather, KeepHardRegions>
    roi;

}  // namespace
}  // namespace millrace::inline contrib
