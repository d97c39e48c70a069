// Arithmetic of matrix products and convolutions on GPUs.
#ifndef MILLRACE_NN_GPU_GPU_PRECISION_H_
#define MILLRACE_NN_GPU_GPU_PRECISION_H_

#include <string>

#include "millrace/export.h"

namespace millrace::inline nn {

enum class GpuPrecision {
  kFloat32,
  kTf32,  // factors rounded to 10 bits of mantissa, sums in float32: tensor cores, from Ampere on
  kBfloat16,  // factors, and results of convolutions, rounded to 7 bits; sums in float32; as above
};

// "fp32", "tf32" or "bf16". Throws Error for another text.
MILLRACE_API GpuPrecision ParseGpuPrecision(const std::string& text);

// Of the GPU libraries that are made from now on, in this process. At first kFloat32. Thread-safe.
MILLRACE_API void SetGpuPrecision(GpuPrecision precision);
GpuPrecision CurrentGpuPrecision();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_PRECISION_H_
