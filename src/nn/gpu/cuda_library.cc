// The libraries of NVIDIA GPUs: cuBLAS and cuDNN, in float32.
#include <limits>
#include <memory>

#include "device/cuda_queue.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/cuda_convolution.h"
#include "nn/gpu/gpu_library.h"

namespace millrace::inline nn {
namespace {

class CudaLibrary final : public GpuLibrary {
 public:
  explicit CudaLibrary(Queue& queue) : queue_(CudaQueue::Of(queue)) {
    queue_.Select();
    const std::string& device = queue.device().name();
    Cublas().Check(Cublas().cublasCreate_v2(&cublas_), device, "cannot begin");
    try {
      Cublas().Check(Cublas().cublasSetStream_v2(cublas_, queue_.stream()), device, "cannot begin");
      Cudnn().Check(Cudnn().cudnnCreate(&cudnn_), device, "cannot begin");
      Cudnn().Check(Cudnn().cudnnSetStream(cudnn_, queue_.stream()), device, "cannot begin");
    } catch (const Error&) {
      End();
      throw;
    }
  }
  ~CudaLibrary() override { End(); }

  void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                const float* b, bool add, float* c) override {
    const float one = 1, old = add ? 1 : 0;
    queue_.Select();
    // cuBLAS has columns where this interface has rows: it computes c^T = b^T a^T.
    Cublas().Check(Cublas().cublasSgemm_v2(cublas_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                           transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, Int(n), Int(m),
                                           Int(k), &one, b, Int(transpose_b ? k : n), a,
                                           Int(transpose_a ? m : k), &old, c, Int(n)),
                   queue_.device().name(), "a matrix product failed");
  }

  std::unique_ptr<ConvolutionPlan> PlanConvolution(const ConvolutionProblem& problem) override {
    queue_.Select();
    return PlanCudnnConvolution(problem, cudnn_, queue_);
  }

 private:
  static int Int(int64_t value) {
    if (value > std::numeric_limits<int>::max()) {
      throw Error("a matrix with ", value, " rows or columns is too large for cuBLAS");
    }
    return static_cast<int>(value);
  }
  void End() {
    if (cudnn_ != nullptr) Cudnn().cudnnDestroy(cudnn_);
    if (cublas_ != nullptr) Cublas().cublasDestroy_v2(cublas_);
  }

  CudaQueue& queue_;
  cublasHandle_t cublas_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
};

const RegisterGpuLibrary registered(DeviceType::kCuda, [](Queue& queue) {
  return std::make_unique<CudaLibrary>(queue);
});

}  // namespace
}  // namespace millrace::inline nn
