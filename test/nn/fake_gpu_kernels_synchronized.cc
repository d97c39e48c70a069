// Kernels of layers whose batches are synchronised.
#include "nn/layers/norm/normalize_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<SumsOfChannels<MeanSquareOfChannels>, TakeVariance> registered;

}  // namespace
}  // namespace millrace::test
