// Starts the kernels of stream_executor.h on a device. cuda_executor.cc implements it for CUDA.
// Tests use an implementation that runs the same kernel body (kernel_body.h) on the host.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_LAUNCHER_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_LAUNCHER_H_

#include "exchange/kernels/kernel_op.h"
#include "millrace/device.h"

namespace millrace::inline exchange {

class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  // Enqueues a kernel for `batch`. Until the kernel has completed, the caller must not change the
  // memory to which the batch points. Does not allocate. Throws Error as `queue` does.
  virtual void Launch(const KernelBatch& batch, Queue& queue) = 0;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_LAUNCHER_H_
