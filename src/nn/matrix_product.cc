#include "nn/matrix_product.h"

#include "millrace/device.h"
#include "nn/gpu/gpu_library.h"
#include "nn/onednn/matrix_product.h"

namespace millrace::inline nn {
namespace {

bool OnHost(Queue& queue) { return queue.device().type() == DeviceType::kCpu; }

}  // namespace

void PrepareMultiply(Queue& queue) {
  if (!OnHost(queue)) GpuLibraryOf(queue);
}

void Multiply(Queue& queue, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
              const float* a, const float* b, bool add, float* c) {
  if (OnHost(queue)) return onednn::Multiply(transpose_a, transpose_b, m, n, k, a, b, add, c);
  GpuLibraryOf(queue).Multiply(transpose_a, transpose_b, m, n, k, a, b, add, c);
}

}  // namespace millrace::inline nn
