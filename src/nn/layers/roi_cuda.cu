// The kernels of ROIPooling, PSROIPooling, ROIAlign and BoxAnnotatorOHEM.
#include "device/cuda_kernel.h"
#include "nn/layers/box_annotator_ohem_kernels.h"
#include "nn/layers/roi_align_kernels.h"
#include "nn/layers/roi_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<RoiMaxForward, RoiMaxGather, RoiSensitiveForward, RoiSensitiveGather,
                          RoiAlignForward, RoiAlignGather, KeepHardRegions>
    registered;

}  // namespace
}  // namespace millrace::inline nn
