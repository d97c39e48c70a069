// The libraries of NVIDIA GPUs: cuBLAS and cuDNN.
#include "nn/gpu/cuda_library.h"

#include <glog/logging.h>

#include <cstdlib>
#include <limits>
#include <optional>

#include "device/cuda_queue.h"
#include "device/cuda_status.h"
#include "nn/gpu/cuda_biased_product.h"
#include "nn/gpu/cuda_convolution.h"

namespace millrace::inline nn {
namespace {

const char* NameOf(GpuPrecision precision) {
  switch (precision) {
    case GpuPrecision::kTf32:
      return "tf32";
    case GpuPrecision::kBfloat16:
      return "bf16";
    default:
      return "fp32";
  }
}

const char* TextOf(GpuPrecision precision) {
  switch (precision) {
    case GpuPrecision::kTf32:
      return "TF32";
    case GpuPrecision::kBfloat16:
      return "bfloat16, with sums in float32";
    default:
      return "float32";
  }
}

class CudaLibrary final : public GpuLibrary {
 public:
  CudaLibrary(Queue& queue, const CublasApi& cublas, const CudnnApi& cudnn, GpuPrecision precision,
              ConvolutionCache* cache)
      : queue_(CudaQueue::Of(queue)),
        cublas_(cublas),
        cudnn_(cudnn),
        precision_(precision),
        cache_(cache) {
    CheckCuda(cudaGetDeviceProperties(&properties_, queue.device().ordinal()), Name(),
              "cannot be used");
    if (precision != GpuPrecision::kFloat32) CheckTensorCores();
    queue_.Select();
    try {
      Check(cublas_.cublasCreate_v2(&cublas_handle_));
      Check(cublas_.cublasSetStream_v2(cublas_handle_, queue_.stream()));
      Check(cublas_.cublasSetMathMode(cublas_handle_, precision == GpuPrecision::kTf32
                                                          ? CUBLAS_TF32_TENSOR_OP_MATH
                                                          : CUBLAS_DEFAULT_MATH));
      biased_.emplace(cublas_, cublas_handle_, &queue_, precision);
      Check(cudnn_.cudnnCreate(&cudnn_handle_));
      Check(cudnn_.cudnnSetStream(cudnn_handle_, queue_.stream()));
    } catch (const Error&) {
      End();
      throw;
    }
    LOG(INFO) << Name() << ": matrix products and convolutions in " << TextOf(precision);
  }
  ~CudaLibrary() override { End(); }

  void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                const float* b, bool add, float* c) override {
    if (m == 0 || n == 0) return;
    if (k == 0) {  // leading dimensions of 0 are errors to cuBLAS
      if (!add) queue_.Fill(c, 0, m * n * sizeof(float));
      return;
    }
    const float one = 1, old = add ? 1 : 0;
    queue_.Select();
    // cuBLAS has columns where this interface has rows: it computes c^T = b^T a^T.
    const cublasOperation_t first = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int ldb = Int(transpose_b ? k : n), lda = Int(transpose_a ? m : k), ldc = Int(n);
    const cublasStatus_t status =
        precision_ == GpuPrecision::kBfloat16
            ? cublas_.cublasGemmEx(cublas_handle_, first, second, ldc, Int(m), Int(k), &one, b,
                                   CUDA_R_32F, ldb, a, CUDA_R_32F, lda, &old, c, CUDA_R_32F, ldc,
                                   CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_GEMM_DEFAULT)
            : cublas_.cublasSgemm_v2(cublas_handle_, first, second, ldc, Int(m), Int(k), &one, b,
                                     ldb, a, lda, &old, c, ldc);
    cublas_.Check(status, queue_.device().name(), "a matrix product failed");
  }

  bool MultiplyWithBias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float* a, const float* b, const float* bias, float* c) override {
    if (m == 0 || n == 0 || k == 0) return false;
    queue_.Select();
    return biased_->Multiply(transpose_a, transpose_b, Int(m), Int(n), Int(k), a, b, bias, c);
  }

  std::unique_ptr<ConvolutionPlan> PlanConvolution(const ConvolutionProblem& problem) override {
    queue_.Select();
    return PlanCudnnConvolution(problem, {cudnn_, cudnn_handle_, queue_, cache_, properties_.name},
                                precision_);
  }

 private:
  static int Int(int64_t value) {
    if (value > std::numeric_limits<int>::max()) {
      throw Error("a matrix with ", value, " rows or columns is too large for cuBLAS");
    }
    return static_cast<int>(value);
  }
  // Tensor cores have TF32 and bfloat16 from compute capability 8.0 on.
  void CheckTensorCores() const {
    if (properties_.major >= 8) return;
    throw Error("--precision=", NameOf(precision_), ": ", Name(), " has compute capability ",
                properties_.major, ".", properties_.minor,
                ", expected at least 8.0, or --precision=fp32");
  }
  void Check(cublasStatus_t status) const { cublas_.Check(status, Name(), "cannot begin"); }
  void Check(cudnnStatus_t status) const { cudnn_.Check(status, Name(), "cannot begin"); }
  const std::string& Name() const { return queue_.device().name(); }
  void End() {
    biased_.reset();
    if (cudnn_handle_ != nullptr) cudnn_.cudnnDestroy(cudnn_handle_);
    if (cublas_handle_ != nullptr) cublas_.cublasDestroy_v2(cublas_handle_);
  }

  CudaQueue& queue_;
  const CublasApi& cublas_;
  const CudnnApi& cudnn_;
  const GpuPrecision precision_;
  ConvolutionCache* const cache_;
  cudaDeviceProp properties_;
  cublasHandle_t cublas_handle_ = nullptr;
  std::optional<CudaBiasedProducts> biased_;
  cudnnHandle_t cudnn_handle_ = nullptr;
};

// Null if there is none, or none is wanted. Throws Error for a wrong setting.
ConvolutionCache* CacheOfThisUser() {
  static const std::unique_ptr<ConvolutionCache> cache = [] {
    const std::string path =
        ConvolutionCachePath([](const char* variable) { return std::getenv(variable); });
    return path.empty() ? nullptr : std::make_unique<ConvolutionCache>(path);
  }();
  return cache.get();
}

const RegisterGpuLibrary registered(DeviceType::kCuda, [](Queue& queue) {
  return MakeCudaLibrary(queue, Cublas(), Cudnn(), CurrentGpuPrecision(), CacheOfThisUser());
});

}  // namespace

std::unique_ptr<GpuLibrary> MakeCudaLibrary(Queue& queue, const CublasApi& cublas,
                                            const CudnnApi& cudnn, GpuPrecision precision,
                                            ConvolutionCache* cache) {
  return std::make_unique<CudaLibrary>(queue, cublas, cudnn, precision, cache);
}

}  // namespace millrace::inline nn
