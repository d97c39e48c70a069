#include "exchange/kernels/kernel_stream.h"

#include "base/error.h"

namespace millrace {

KernelStreamRegistry& KernelStreamRegistry::Get() {
  static KernelStreamRegistry registry;
  return registry;
}

void KernelStreamRegistry::Register(DeviceType type, Maker maker) {
  entries_.push_back({type, maker});
}

std::unique_ptr<KernelStream> KernelStreamRegistry::Make(DeviceType type, int ordinal,
                                                         const MergeRuleConfig& rule) {
  for (const Entry& entry : entries_) {
    if (entry.type == type) return entry.maker(ordinal, rule);
  }
  throw Error(DeviceTypeName(type), " device ", ordinal, ": this build has no exchange for ",
              DeviceTypeName(type), " devices: expected one with CUDA (make CUDA=on)");
}

}  // namespace millrace
