#include "device/gpu_types.h"

#include <utility>

namespace millrace::inline device {

GpuTypes& GpuTypes::Get() {
  static GpuTypes types;
  return types;
}

void GpuTypes::ForEach(Visit visit) {
  GpuTypes& all = Get();
  for (const DeviceType type : all.types_) visit(type);
  all.visits_.push_back(std::move(visit));
}

void GpuTypes::Add(DeviceType type) {
  GpuTypes& all = Get();
  for (const Visit& visit : all.visits_) visit(type);
  all.types_.push_back(type);
}

}  // namespace millrace::inline device
