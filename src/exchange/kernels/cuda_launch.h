// The exchange's CUDA kernels, as the host starts them.
#ifndef MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
#define MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/merge_rule.h"

namespace millrace {

// Queues a kernel that carries out `batch`, one block of threads for each of its chains.
// Returns what cudaGetLastError() says of the launch.
cudaError_t LaunchExchangeKernel(const KernelBatch& batch, const MergeRuleConfig& rule,
                                 cudaStream_t stream);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
