#include "nn/gpu/gpu_transform.h"

#include <atomic>

namespace millrace::inline nn {
namespace {

std::atomic<bool> current{true};

}  // namespace

void SetGpuTransform(bool wanted) { current = wanted; }
bool GpuTransform() { return current; }

}  // namespace millrace::inline nn
