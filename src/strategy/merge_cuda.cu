#include "device/cuda_kernel.h"
#include "strategy/compensate_kernel.h"
#include "strategy/merge_kernels.h"

namespace millrace::inline strategy {
namespace {

const RegisterCudaKernels<TakeDifferences, AddSum, OuterStep, Compensate> registered;

}  // namespace
}  // namespace millrace::inline strategy
