#include "contrib/segmentation/bn_kernels.h"
#include "contrib/segmentation/dice_loss_kernels.h"
#include "contrib/segmentation/seg_accuracy_kernels.h"
#include "contrib/segmentation/upsample_kernels.h"
#include "device/cuda_kernel.h"

namespace millrace::inline contrib {
namespace {

const RegisterCudaKernels<SumsOfChannels<BnVariance>, BnOfAverages> bn;

const RegisterCudaKernels<LossParts<DiceTerms>, DiceOfParts, DiceBackward> dice_loss;

const RegisterCudaKernels<InterpForward, InterpGradient> interp;

const RegisterCudaKernels<PredictPositions, CountClasses, SegAccuracyOfCounts> seg_accuracy;

const RegisterCudaKernels<UpsampleNearest, UpsampleNearestGradient, UpsampleByMask,
                          UpsampleByMaskGradient>
    upsample;

}  // namespace
}  // namespace millrace::inline contrib
