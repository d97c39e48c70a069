// Kernels of the layers of regions, of SpatialTransformer and of BN, on the fake device.
#include "contrib/classification/spatial_transformer_kernels.h"
#include "contrib/detection/roi_align_kernels.h"
#include "contrib/detection/roi_kernels.h"
#include "contrib/segmentation/bn_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<RoiMaxForward, RoiMaxGather, RoiSensitiveForward, RoiSensitiveGather,
                          RoiAlignForward, RoiAlignGather, TransformerForward, TransformerGather,
                          TransformerOfTheta, KeepHardRegions, SumsOfChannels<BnVariance>,
                          BnOfAverages>
    kernels;

}  // namespace
}  // namespace millrace::test
