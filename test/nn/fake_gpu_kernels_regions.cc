// Kernels of the layers of regions, of SpatialTransformer and of BN, on the fake device.
#include "nn/layers/bn_kernels.h"
#include "nn/layers/box_annotator_ohem_kernels.h"
#include "nn/layers/roi_align_kernels.h"
#include "nn/layers/roi_kernels.h"
#include "nn/layers/spatial_transformer_kernels.h"
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
