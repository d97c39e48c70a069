// Host-side launch of the exchange's CUDA kernels.
#ifndef MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
#define MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/merge_rule.h"

namespace millrace {

// Queues a kernel for `batch` on `stream`, with one thread block per chain. Returns
// cudaGetLastError() after the launch.
cudaError_t LaunchExchangeKernel(const KernelBatch& batch, const MergeRuleConfig& rule,
                                 cudaStream_t stream);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
