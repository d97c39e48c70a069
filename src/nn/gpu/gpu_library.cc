#include "nn/gpu/gpu_library.h"

#include <map>
#include <utility>

#include "base/error.h"

namespace millrace::inline nn {
namespace {

std::map<DeviceType, RegisterGpuLibrary::Maker>& Makers() {
  static std::map<DeviceType, RegisterGpuLibrary::Maker> makers;
  return makers;
}

}  // namespace

GpuLibrary& GpuLibraryOf(Queue& queue) {
  return queue.Attached<GpuLibrary>([&] {
    const auto found = Makers().find(queue.device().type());
    if (found == Makers().end()) throw Error(queue.device().name(), ": this build has no GPU code");
    return found->second(queue);
  });
}

RegisterGpuLibrary::RegisterGpuLibrary(DeviceType type, Maker maker) : type_(type) {
  Makers()[type] = std::move(maker);
}

}  // namespace millrace::inline nn
