// Matrix products to which a bias is added while their results are written, by cuBLASLt: one
// kernel, and one pass over the results, less than a product and an addition.
#ifndef MILLRACE_NN_GPU_CUDA_BIASED_PRODUCT_H_
#define MILLRACE_NN_GPU_CUDA_BIASED_PRODUCT_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "device/cuda_queue.h"
#include "millrace/memory_space.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_settings.h"

namespace millrace::inline nn {

// The products of one queue, for the thread that uses it.
class CudaBiasedProducts {
 public:
  // `handle`: of cuBLAS, whose handles are also cuBLASLt's. `workspace`: of the queue's work; may
  // be empty. All outlive this object. `precision` is not kAuto.
  CudaBiasedProducts(const CublasApi& cublas, cublasHandle_t handle, CudaQueue* queue,
                     const Buffer& workspace, GpuPrecision precision);
  ~CudaBiasedProducts();

  // As GpuLibrary::MultiplyWithBias; the queue's device is selected. The first call with matrices
  // of a shape chooses an algorithm. Throws Error.
  bool Multiply(bool transpose_a, bool transpose_b, int m, int n, int k, const float* a,
                const float* b, const float* bias, float* c);

 private:
  struct Shape {
    bool transpose_a, transpose_b;
    int m, n, k;
    // Alignments of a, b, bias and c: powers of 2, at most 256.
    std::array<uint32_t, 4> alignments;
    auto operator<=>(const Shape&) const = default;
  };
  struct Plan;

  Plan& PlanOf(const Shape& shape, const float* bias);
  void Choose(const Shape& shape, const float* bias, Plan* plan);

  const CublasApi& cublas_;
  const cublasLtHandle_t handle_;
  CudaQueue& queue_;
  const Buffer& workspace_;
  const cublasComputeType_t compute_;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_BIASED_PRODUCT_H_
