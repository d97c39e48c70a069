// The fake device's kernels of layers that work on boxes.
#include "nn/layers/norm/l2_norm_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<InverseNormOfPosition, InverseNormOfImage, L2NormForward,
                          L2NormProductOfPosition, L2NormProductOfImage, L2NormBackward,
                          L2NormScaleGradient, L2NormSharedGradient>
    kernels;

}  // namespace
}  // namespace millrace::test
