// Executor of a replica in the memory of a GPU.
#include <memory>
#include <utility>

#include "device/cuda_queue.h"
#include "exchange/kernels/cuda_launch.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/stream_executor.h"

namespace millrace::inline exchange {
namespace {

class CudaLauncher : public KernelLauncher {
 public:
  explicit CudaLauncher(const MergeRuleConfig& rule)
      : launch_(CudaRuleRegistry::Get().Make(rule)) {}

  void Launch(const KernelBatch& batch, Queue& queue) override {
    CudaQueue& cuda = CudaQueue::Of(queue);
    cuda.Select();
    cuda.Check(launch_(batch, cuda.stream()));
  }

 private:
  const ExchangeLaunch launch_;
};

std::unique_ptr<ChunkExecutor> Make(Device& device, const ReplicaArrays& arrays,
                                    const CodecConfig& codec, const MergeRuleConfig& rule,
                                    const ExecutorOptions& options) {
  auto launcher = std::make_unique<CudaLauncher>(rule);
  MergeRuleRegistry::Get().CheckCodec(rule.name, codec);
  return std::make_unique<StreamExecutor>(device, std::move(launcher), arrays, codec,
                                          options.limits, options.order);
}

const RegisterExecutor cuda_executor(DeviceType::kCuda, Make);

}  // namespace
}  // namespace millrace::inline exchange
