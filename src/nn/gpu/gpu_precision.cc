#include "nn/gpu/gpu_precision.h"

#include <atomic>

#include "base/error.h"

namespace millrace::inline nn {
namespace {

std::atomic<GpuPrecision> current{GpuPrecision::kFloat32};

}  // namespace

GpuPrecision ParseGpuPrecision(const std::string& text) {
  if (text == "fp32") return GpuPrecision::kFloat32;
  if (text == "tf32") return GpuPrecision::kTf32;
  if (text == "bf16") return GpuPrecision::kBfloat16;
  throw Error("--precision=", text, ": expected fp32, tf32 or bf16");
}

void SetGpuPrecision(GpuPrecision precision) { current = precision; }
GpuPrecision CurrentGpuPrecision() { return current; }

}  // namespace millrace::inline nn
