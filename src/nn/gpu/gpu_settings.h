#ifndef MILLRACE_NN_GPU_GPU_SETTINGS_H_
#define MILLRACE_NN_GPU_GPU_SETTINGS_H_

#include <string>

namespace millrace::inline nn {

// How nets use the libraries of GPUs for matrix products and convolutions.

// Arithmetic of matrix products and convolutions.
enum class GpuPrecision {
  kAuto,  // matrix products in float32; convolutions in TF32 on a GPU that has it, else in float32
  kFloat32,
  kTf32,  // factors rounded to 10 bits of mantissa, sums in float32: tensor cores, from Ampere on
  kBfloat16,  // factors, and results of convolutions, rounded to 7 bits; sums in float32; as above
};

// "auto", "fp32", "tf32" or "bf16". Throws Error for another text.
GpuPrecision ParseGpuPrecision(const std::string& text);

// The values here are those of a program that sets none. Commands have flags with other defaults.
struct GpuSettings {
  GpuPrecision precision = GpuPrecision::kFloat32;
  // Whether inner products add their bias while their results are written.
  bool fused_bias = true;
  // Time that each net may spend on measuring algorithms of its convolutions, in seconds. A
  // measurement that has begun is completed. 0: none; the library's heuristics choose.
  double measure_seconds = 0;
};

// Apply to the GPU libraries that are made from now on, in this process. Thread-safe.
void SetGpuSettings(const GpuSettings& settings);
GpuSettings CurrentGpuSettings();

// Where images become the values of a net on a GPU.

// Whether nets that this process builds from now on copy images to GPUs as bytes, and mirror them,
// subtract the mean and scale there (data/images/pixel_rule.h). At first they do. The values are
// the same either way. Thread-safe.
void SetGpuTransform(bool wanted);
bool GpuTransform();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_SETTINGS_H_
