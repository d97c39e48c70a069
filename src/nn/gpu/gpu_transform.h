// Where images become the values of a net on a GPU.
#ifndef MILLRACE_NN_GPU_GPU_TRANSFORM_H_
#define MILLRACE_NN_GPU_GPU_TRANSFORM_H_

#include "millrace/export.h"

namespace millrace::inline nn {

// Whether nets that this process builds from now on copy images to GPUs as bytes, and mirror them,
// subtract the mean and scale there (data/pixel_rule.h). At first they do. The values are the same
// either way. Thread-safe.
MILLRACE_API void SetGpuTransform(bool wanted);
bool GpuTransform();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_TRANSFORM_H_
