#include "nn/gpu/gpu_settings.h"

#include <atomic>
#include <mutex>

#include "base/error.h"

namespace millrace::inline nn {
namespace {

std::mutex mutex;
GpuSettings current;

std::atomic<bool> transform{true};

}  // namespace

GpuPrecision ParseGpuPrecision(const std::string& text) {
  if (text == "auto") return GpuPrecision::kAuto;
  if (text == "fp32") return GpuPrecision::kFloat32;
  if (text == "tf32") return GpuPrecision::kTf32;
  if (text == "bf16") return GpuPrecision::kBfloat16;
  throw Error("--precision=", text, ": expected auto, fp32, tf32 or bf16");
}

void SetGpuSettings(const GpuSettings& settings) {
  std::lock_guard lock(mutex);
  current = settings;
}
GpuSettings CurrentGpuSettings() {
  std::lock_guard lock(mutex);
  return current;
}

void SetGpuTransform(bool wanted) { transform = wanted; }
bool GpuTransform() { return transform; }

}  // namespace millrace::inline nn
