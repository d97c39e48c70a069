// The libraries of NVIDIA GPUs: cuBLAS and cuDNN.
#include "nn/gpu/cuda_library.h"

#include <glog/logging.h>

#include <cstdlib>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "device/cuda_queue.h"
#include "device/cuda_status.h"
#include "nn/gpu/cuda_biased_product.h"
#include "nn/gpu/cuda_convolution.h"

namespace millrace::inline nn {
namespace {

// What NVIDIA recommends for compute capability 9.0; older GPUs need less. Without a workspace of
// its own, cuBLAS allocates one while its work is recorded, and the graph has nodes of memory.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// The arithmetic of a GPU's work; none is kAuto.
struct Arithmetic {
  GpuPrecision products, convolutions;
};

Arithmetic ArithmeticOn(bool has_tensor_cores, GpuPrecision precision) {
  if (precision != GpuPrecision::kAuto) return {precision, precision};
  return {GpuPrecision::kFloat32, has_tensor_cores ? GpuPrecision::kTf32 : GpuPrecision::kFloat32};
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

std::string TextOf(const Arithmetic& arithmetic) {
  const char* const products = TextOf(arithmetic.products);
  if (arithmetic.products == arithmetic.convolutions) {
    return StrCat("matrix products and convolutions in ", products);
  }
  return StrCat("matrix products in ", products, ", convolutions in ",
                TextOf(arithmetic.convolutions));
}

class CudaLibrary final : public GpuLibrary {
 public:
  CudaLibrary(Queue& queue, const CublasApi& cublas, const CudnnApi& cudnn,
              const GpuSettings& settings, ConvolutionCache* cache, const Clock& clock)
      : queue_(CudaQueue::Of(queue)),
        cublas_(cublas),
        cudnn_(cudnn),
        cache_(cache),
        measure_(settings.measure_seconds, clock) {
    CheckCuda(cudaGetDeviceProperties(&properties_, queue.device().ordinal()), Name(),
              "cannot be used");
    CheckTensorCores(settings.precision);
    arithmetic_ = ArithmeticOn(has_tensor_cores(), settings.precision);
    queue_.Select();
    try {
      Check(cublas_.cublasCreate_v2(&cublas_handle_));
      Check(cublas_.cublasSetStream_v2(cublas_handle_, queue_.stream()));
      AllocateWorkspace();  // now: setting a stream takes it away
      Check(cublas_.cublasSetMathMode(cublas_handle_, arithmetic_.products == GpuPrecision::kTf32
                                                          ? CUBLAS_TF32_TENSOR_OP_MATH
                                                          : CUBLAS_DEFAULT_MATH));
      if (settings.fused_bias) {
        biased_.emplace(cublas_, cublas_handle_, &queue_, workspace_, arithmetic_.products);
      }
      Check(cudnn_.cudnnCreate(&cudnn_handle_));
      Check(cudnn_.cudnnSetStream(cudnn_handle_, queue_.stream()));
    } catch (const Error&) {
      End();
      throw;
    }
    LOG(INFO) << Name() << ": " << TextOf(arithmetic_)
              << (settings.fused_bias ? "" : "; biases are added by a kernel of their own");
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
        arithmetic_.products == GpuPrecision::kBfloat16
            ? cublas_.cublasGemmEx(cublas_handle_, first, second, ldc, Int(m), Int(k), &one, b,
                                   CUDA_R_32F, ldb, a, CUDA_R_32F, lda, &old, c, CUDA_R_32F, ldc,
                                   CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_GEMM_DEFAULT)
            : cublas_.cublasSgemm_v2(cublas_handle_, first, second, ldc, Int(m), Int(k), &one, b,
                                     ldb, a, lda, &old, c, ldc);
    cublas_.Check(status, queue_.device().name(), "a matrix product failed");
  }

  bool MultiplyWithBias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float* a, const float* b, const float* bias, float* c) override {
    if (!biased_ || m == 0 || n == 0 || k == 0) return false;
    queue_.Select();
    return biased_->Multiply(transpose_a, transpose_b, Int(m), Int(n), Int(k), a, b, bias, c);
  }

  std::unique_ptr<ConvolutionPlan> PlanConvolution(const ConvolutionProblem& problem,
                                                   KeptInput kept) override {
    queue_.Select();
    return PlanCudnnConvolution(
        problem, {cudnn_, cudnn_handle_, queue_, cache_, properties_.name, &measure_},
        arithmetic_.convolutions, kept);
  }

 private:
  static int Int(int64_t value) {
    if (value > std::numeric_limits<int>::max()) {
      throw Error("a matrix with ", value, " rows or columns is too large for cuBLAS");
    }
    return static_cast<int>(value);
  }
  // Those with TF32 and bfloat16.
  bool has_tensor_cores() const { return properties_.major >= 8; }
  void CheckTensorCores(GpuPrecision precision) const {
    const bool needs = precision == GpuPrecision::kTf32 || precision == GpuPrecision::kBfloat16;
    if (!needs || has_tensor_cores()) return;
    throw Error("--precision=", precision == GpuPrecision::kTf32 ? "tf32" : "bf16", ": ", Name(),
                " has compute capability ", properties_.major, ".", properties_.minor,
                ", expected at least 8.0, or --precision=fp32");
  }
  // Its use is in the order of the queue's work, so all of the work can share it.
  void AllocateWorkspace() {
    try {
      workspace_ = Buffer(queue_.device().memory(), kWorkspaceBytes);
    } catch (const OutOfMemory&) {
      LOG(INFO) << Name() << ": no memory for a workspace of matrix products: cuBLAS has its own";
      return;
    }
    Check(cublas_.cublasSetWorkspace_v2(cublas_handle_, workspace_.get(), workspace_.bytes()));
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
  ConvolutionCache* const cache_;
  MeasureTime measure_;
  cudaDeviceProp properties_;
  Arithmetic arithmetic_;
  Buffer workspace_;  // of cuBLAS and cuBLASLt
  cublasHandle_t cublas_handle_ = nullptr;
  std::optional<CudaBiasedProducts> biased_;  // none: not wanted
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

const RegisterGpuLibrary cuda_library(DeviceType::kCuda, [](Queue& queue) {
  return MakeCudaLibrary(queue, Cublas(), Cudnn(), GpuSettingsOf(queue), CacheOfThisUser());
});

}  // namespace

std::unique_ptr<GpuLibrary> MakeCudaLibrary(Queue& queue, const CublasApi& cublas,
                                            const CudnnApi& cudnn, const GpuSettings& settings,
                                            ConvolutionCache* cache, const Clock* clock) {
  static const SteadyClock machine;
  return std::make_unique<CudaLibrary>(queue, cublas, cudnn, settings, cache,
                                       clock == nullptr ? machine : *clock);
}

}  // namespace millrace::inline nn
