#include "exchange/kernels/executor_registry.h"

#include "base/error.h"
#include "base/registration.h"

namespace millrace::inline exchange {

ExecutorRegistry& ExecutorRegistry::Get() {
  static ExecutorRegistry registry;
  return registry;
}

void ExecutorRegistry::Register(DeviceType type, Maker maker) {
  if (!makers_.emplace(type, maker).second) {
    ReportSecondRegistration("exchange executor for devices of type", DeviceTypeName(type));
  }
}

std::unique_ptr<ChunkExecutor> ExecutorRegistry::Make(Device& device, const ReplicaArrays& arrays,
                                                      const CodecConfig& codec,
                                                      const MergeRuleConfig& rule,
                                                      const ExecutorOptions& options) const {
  const auto found = makers_.find(device.type());
  if (found == makers_.end()) {
    throw Error(device.name(), ": this build has no exchange for devices of this type");
  }
  return found->second(device, arrays, codec, rule, options);
}

}  // namespace millrace::inline exchange
