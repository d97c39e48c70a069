#include "nn/gpu/gpu_settings.h"

#include "base/error.h"

namespace millrace::inline nn {

GpuPrecision ParseGpuPrecision(const std::string& text) {
  if (text == "auto") return GpuPrecision::kAuto;
  if (text == "fp32") return GpuPrecision::kFloat32;
  if (text == "tf32") return GpuPrecision::kTf32;
  if (text == "bf16") return GpuPrecision::kBfloat16;
  throw Error("--precision=", text, ": expected auto, fp32, tf32 or bf16");
}

GraphUse ParseGraphUse(const std::string& text) {
  if (text == "auto") return GraphUse::kAuto;
  if (text == "on") return GraphUse::kOn;
  if (text == "off") return GraphUse::kOff;
  throw Error("--cuda_graphs=", text, ": expected auto, on or off");
}

}  // namespace millrace::inline nn
