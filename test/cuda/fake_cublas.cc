#include <algorithm>

#include "nn/gpu/bfloat16_kernels.h"
#include "test/cuda/fake_handles.h"

namespace millrace::test {
namespace {

using namespace fake_handles;

cublasStatus_t Result(bool holds) {
  return holds ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t BlasFailure() {
  return Fake().fails_for_memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t BlasCreate(cublasHandle_t* handle) {
  if (Fails()) return BlasFailure();
  Make(handle, Handle{CurrentFakeGpu()}, &Fake().handles);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t BlasDestroy(cublasHandle_t handle) {
  End<Handle>(handle, &Fake().handles);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t BlasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (Fails()) return BlasFailure();
  As<Handle>(handle).stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t BlasSetMath(cublasHandle_t, cublasMath_t math) {
  if (Fails()) return BlasFailure();
  Fake().product_math = math;
  return CUBLAS_STATUS_SUCCESS;
}

// c = alpha op(a) op(b) + beta c, of matrices whose columns follow each other; with factors that
// `round` has rounded.
template <typename Round>
cublasStatus_t Product(const char* name, cublasHandle_t handle, cublasOperation_t of_a,
                       cublasOperation_t of_b, int m, int n, int k, const float* alpha,
                       const float* a, int lda, const float* b, int ldb, const float* beta,
                       float* c, int ldc, Round round) {
  if (Fails()) return BlasFailure();
  const bool ta = of_a == CUBLAS_OP_T, tb = of_b == CUBLAS_OP_T;
  const Handle& own = As<Handle>(handle);
  const bool right = Require(m >= 0 && n >= 0 && k >= 0, "gemm: a negative size") &&
                     Require(lda >= std::max(1, ta ? k : m), "gemm: lda") &&
                     Require(ldb >= std::max(1, tb ? n : k), "gemm: ldb") &&
                     Require(ldc >= std::max(1, m), "gemm: ldc") && Begin(own, name) &&
                     RequireMemory(a, size_t(lda) * (ta ? m : k), own, "gemm: a") &&
                     RequireMemory(b, size_t(ldb) * (tb ? k : n), own, "gemm: b") &&
                     RequireMemory(c, size_t(ldc) * n, own, "gemm: c");
  if (!right) return CUBLAS_STATUS_INVALID_VALUE;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += double{round(a[ta ? l + size_t(i) * lda : i + size_t(l) * lda])} *
               round(b[tb ? j + size_t(l) * ldb : l + size_t(j) * ldb]);
      }
      float& at = c[i + size_t(j) * ldc];
      at = static_cast<float>(*alpha * sum + (*beta == 0 ? 0 : *beta * at));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Sgemm(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m,
                     int n, int k, const float* alpha, const float* a, int lda, const float* b,
                     int ldb, const float* beta, float* c, int ldc) {
  return Product("sgemm", handle, of_a, of_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                 [](float value) { return value; });
}

// Only what bfloat16 needs: arrays in float32, factors rounded.
cublasStatus_t GemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m,
                      int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                      const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                      cudaDataType c_type, int ldc, cublasComputeType_t compute,
                      cublasGemmAlgo_t algorithm) {
  if (!Require(a_type == CUDA_R_32F && b_type == CUDA_R_32F && c_type == CUDA_R_32F,
               "gemm: types") ||
      !Require(compute == CUBLAS_COMPUTE_32F_FAST_16BF, "gemm: compute type") ||
      !Require(algorithm == CUBLAS_GEMM_DEFAULT, "gemm: algorithm")) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto in = [](const void* pointer) { return static_cast<const float*>(pointer); };
  return Product("gemm in bfloat16", handle, of_a, of_b, m, n, k, in(alpha), in(a), lda, in(b), ldb,
                 in(beta), static_cast<float*>(c), ldc,
                 [](float value) { return FromBfloat16(ToBfloat16(value)); });
}
const char* BlasText(cublasStatus_t) { return "a failure of cuBLAS"; }
cublasStatus_t BlasProperty(libraryPropertyType, int* value) { return *value = 1, Result(true); }

CublasApi MakeCublas() {
  CublasApi api{};
  api.cublasCreate_v2 = BlasCreate;
  api.cublasDestroy_v2 = BlasDestroy;
  api.cublasSetStream_v2 = BlasSetStream;
  api.cublasSetMathMode = BlasSetMath;
  api.cublasSgemm_v2 = Sgemm;
  api.cublasGemmEx = GemmEx;
  api.cublasGetStatusString = BlasText;
  api.cublasGetProperty = BlasProperty;
  return api;
}

}  // namespace

const CublasApi& FakeCublas() {
  static const CublasApi api = MakeCublas();
  return api;
}

}  // namespace millrace::test
