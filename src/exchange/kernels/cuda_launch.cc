#include "exchange/kernels/cuda_launch.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/registration.h"
#include "device/cuda_queue.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/stream_executor.h"

namespace millrace::inline exchange {

CudaRuleRegistry& CudaRuleRegistry::Get() {
  static CudaRuleRegistry registry;
  return registry;
}

void CudaRuleRegistry::Register(const std::string& name, Maker maker) {
  if (!makers_.emplace(name, std::move(maker)).second) {
    ReportSecondRegistration("kernel of merge rule", name);
  }
}

ExchangeLaunch CudaRuleRegistry::Make(const MergeRuleConfig& rule) const {
  const MergeRuleDescriptor& descriptor = MergeRuleRegistry::Get().Check(rule);
  const auto found = makers_.find(rule.name);
  if (found == makers_.end()) {
    throw Error("merge rule ", rule.name, " has no kernel for GPUs: expected one that has");
  }
  return found->second(descriptor.WithDefaults(rule.parameters));
}

// Executor of a replica in the memory of a GPU.
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
