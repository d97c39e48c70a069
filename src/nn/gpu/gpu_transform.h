// Where images become the values of a net on a GPU.
#ifndef MILLRACE_NN_GPU_GPU_TRANSFORM_H_
#define MILLRACE_NN_GPU_GPU_TRANSFORM_H_

#include "millrace/export.h"

namespace millrace::inline nn {

// Of the nets that are built from now on, in this process: whether images travel to GPUs as bytes
// and are mirrored, and mean and scale applied, there (data/pixel_rule.h). At first they are.
// Values do not depend on it. Thread-safe.
MILLRACE_API void SetGpuTransform(bool wanted);
bool GpuTransform();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_TRANSFORM_H_
