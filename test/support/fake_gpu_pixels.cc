// The kernel of layers that read images, on the fake device: in all programs, since nets of
// images are in many.
#include "nn/layers/data/pixel_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<PixelsToValues> kernels;

}  // namespace
}  // namespace millrace::test
