// The exchange on the fake device: the kernels of a GPU, emulated.
#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/stream_executor.h"
#include "test/support/emulated_launcher.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::unique_ptr<ChunkExecutor> Make(Device& device, const ReplicaArrays& arrays,
                                    const CodecConfig& codec, const MergeRuleConfig&,
                                    const ExecutorOptions& options) {
  auto& fake = static_cast<FakeDevice&>(device);
  // A limit so low that a pass makes several launches.
  StreamLimits limits = options.limits;
  limits.launch_ops = 32;
  return std::make_unique<StreamExecutor>(fake,
                                          std::make_unique<EmulatedLauncher<>>(EmulatedOptions{
                                              .lanes = 8, .seed = Seed(), .device = &fake}),
                                          arrays, codec, limits, options.order);
}

const RegisterExecutor registered(kFakeDevice, Make);

}  // namespace
}  // namespace millrace::test
