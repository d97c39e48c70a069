#include "device/cuda_kernel.h"
#include "strategy/delay_compensation.h"
#include "strategy/merge_kernels.h"

namespace millrace::inline strategy {
namespace {

const RegisterCudaKernels<TakeDifferences, AddSum, OuterStep, Compensate> registered;

}  // namespace
}  // namespace millrace::inline strategy
