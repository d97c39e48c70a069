#include <algorithm>
#include <cstdint>
#include <cstring>

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
  As<Handle>(handle).workspace = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t BlasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (Fails()) return BlasFailure();
  if (!Require(reinterpret_cast<uintptr_t>(workspace) % 256 == 0, "cublas: workspace") ||
      !Require(bytes == size_t{32} << 20, "cublas: bytes of the workspace") ||
      !RequireBytes(workspace, bytes, As<Handle>(handle), "cublas: workspace")) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  As<Handle>(handle).workspace = workspace;
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
                       float* c, int ldc, Round round, const float* bias = nullptr) {
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
  if (own.workspace != nullptr) {
    std::memset(own.workspace, 0x5a, 4096);
  } else {
    ++Fake().products_in_own_memory;
  }
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += double{round(a[ta ? l + size_t(i) * lda : i + size_t(l) * lda])} *
               round(b[tb ? j + size_t(l) * ldb : l + size_t(j) * ldb]);
      }
      float& at = c[i + size_t(j) * ldc];
      at = static_cast<float>(*alpha * sum + (*beta == 0 ? 0 : *beta * at) +
                              (bias != nullptr ? bias[i] : 0));
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
// ---- Products with a bias ----

struct MatmulDesc {
  cublasComputeType_t compute;
  cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};
struct MatrixLayout {
  uint64_t rows, columns;
  int64_t ld;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c, d
};
// What the heuristics note in an algorithm, for the work to be checked.
struct Algorithm {
  uint32_t alignments[4];
  uint32_t of_bias;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

uint32_t AlignmentOf(const void* pointer) {
  uint32_t alignment = 256;
  while (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) alignment /= 2;
  return alignment;
}
// Reads an attribute of the type of *to.
template <typename T>
cublasStatus_t Take(const void* value, size_t bytes, T* to) {
  if (!Require(bytes == sizeof(T), "cublasLt: bytes of an attribute")) return Result(false);
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t MatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                cudaDataType_t scale) {
  if (Fails()) return BlasFailure();
  if (!Require(scale == CUDA_R_32F, "cublasLt: scale type")) return Result(false);
  Make(desc, MatmulDesc{compute}, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  End<MatmulDesc>(desc, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulDescSet(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                             const void* value, size_t bytes) {
  if (Fails()) return BlasFailure();
  auto& desc = As<MatmulDesc>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Take(value, bytes, &desc.of_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Take(value, bytes, &desc.of_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Take(value, bytes, &desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Take(value, bytes, &desc.bias);
    default:
      return Result(Require(false, "cublasLt: an unknown attribute"));
  }
}
cublasStatus_t LayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                            uint64_t columns, int64_t ld) {
  if (Fails()) return BlasFailure();
  if (!Require(type == CUDA_R_32F && ld >= static_cast<int64_t>(rows), "cublasLt: layout")) {
    return Result(false);
  }
  Make(layout, MatrixLayout{rows, columns, ld}, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t LayoutDestroy(cublasLtMatrixLayout_t layout) {
  End<MatrixLayout>(layout, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t PreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (Fails()) return BlasFailure();
  Make(preference, Preference{}, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t PreferenceDestroy(cublasLtMatmulPreference_t preference) {
  End<Preference>(preference, &Fake().descriptors);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t PreferenceSet(cublasLtMatmulPreference_t opaque,
                             cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                             size_t bytes) {
  if (Fails()) return BlasFailure();
  auto& preference = As<Preference>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Take(value, bytes, &preference.workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return Take(value, bytes, &preference.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return Take(value, bytes, &preference.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return Take(value, bytes, &preference.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Take(value, bytes, &preference.alignments[3]);
    default:
      return Result(Require(false, "cublasLt: an unknown preference"));
  }
}
cublasStatus_t Heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t opaque, int wanted,
                         cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (Fails()) return BlasFailure();
  ++Fake().proposals_asked;
  *found = 0;
  if (!Require(wanted > 0, "cublasLt: no result is wanted")) return Result(false);
  if (!Fake().has_biased) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& preference = As<Preference>(opaque);
  Algorithm algorithm{};
  std::copy_n(preference.alignments, 4, algorithm.alignments);
  algorithm.of_bias = AlignmentOf(As<MatmulDesc>(desc).bias);
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize =
      Fake().biased_workspace <= preference.workspace ? Fake().biased_workspace : 0;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Matmul(cublasLtHandle_t lt, cublasLtMatmulDesc_t opaque, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algo, void* workspace, size_t workspace_bytes,
                      cudaStream_t stream) {
  const auto handle = reinterpret_cast<cublasHandle_t>(lt);
  const Handle& own = As<Handle>(handle);
  if (Fake().refuses_biased) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& desc = As<MatmulDesc>(opaque);
  const auto &in_a = As<MatrixLayout>(a_layout), &in_b = As<MatrixLayout>(b_layout),
             &out = As<MatrixLayout>(d_layout);
  const bool ta = desc.of_a == CUBLAS_OP_T, tb = desc.of_b == CUBLAS_OP_T;
  const uint64_t m = ta ? in_a.columns : in_a.rows, k = ta ? in_a.rows : in_a.columns;
  const uint64_t n = tb ? in_b.rows : in_b.columns;
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  const void* const arrays[] = {a, b, c, d};
  bool aligned = AlignmentOf(desc.bias) >= algorithm.of_bias;
  for (int i = 0; i < 4; ++i) aligned &= AlignmentOf(arrays[i]) >= algorithm.alignments[i];
  const bool right = Require(stream == own.stream, "cublasLt: stream") &&
                     Require(desc.epilogue == CUBLASLT_EPILOGUE_BIAS, "cublasLt: epilogue") &&
                     Require(k == (tb ? in_b.columns : in_b.rows), "cublasLt: sizes") &&
                     Require(out.rows == m && out.columns == n && c_layout == d_layout && c == d,
                             "cublasLt: result") &&
                     Require(aligned, "cublasLt: an array of another alignment") &&
                     RequireMemory(desc.bias, m, own, "cublasLt: bias") &&
                     (workspace_bytes == 0 ||
                      RequireBytes(workspace, workspace_bytes, own, "cublasLt: workspace"));
  if (!right) return Result(false);
  Fake().biased_compute = desc.compute;
  Fake().given_biased.push_back(workspace_bytes);
  if (workspace_bytes > 0) std::memset(workspace, 0x5a, workspace_bytes);
  const auto in = [](const void* pointer) { return static_cast<const float*>(pointer); };
  const bool rounds = desc.compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  return Product(
      "product with a bias", handle, desc.of_a, desc.of_b, static_cast<int>(m), static_cast<int>(n),
      static_cast<int>(k), in(alpha), in(a), static_cast<int>(in_a.ld), in(b),
      static_cast<int>(in_b.ld), in(beta), static_cast<float*>(d), static_cast<int>(out.ld),
      [rounds](float value) { return rounds ? FromBfloat16(ToBfloat16(value)) : value; },
      desc.bias);
}

const char* BlasText(cublasStatus_t) { return "a failure of cuBLAS"; }
cublasStatus_t BlasProperty(libraryPropertyType, int* value) { return *value = 1, Result(true); }

CublasApi MakeCublas() {
  CublasApi api{};
  api.cublasCreate_v2 = BlasCreate;
  api.cublasDestroy_v2 = BlasDestroy;
  api.cublasSetStream_v2 = BlasSetStream;
  api.cublasSetWorkspace_v2 = BlasSetWorkspace;
  api.cublasSetMathMode = BlasSetMath;
  api.cublasSgemm_v2 = Sgemm;
  api.cublasGemmEx = GemmEx;
  api.cublasLtMatmulDescCreate = MatmulDescCreate;
  api.cublasLtMatmulDescDestroy = MatmulDescDestroy;
  api.cublasLtMatmulDescSetAttribute = MatmulDescSet;
  api.cublasLtMatrixLayoutCreate = LayoutCreate;
  api.cublasLtMatrixLayoutDestroy = LayoutDestroy;
  api.cublasLtMatmulPreferenceCreate = PreferenceCreate;
  api.cublasLtMatmulPreferenceDestroy = PreferenceDestroy;
  api.cublasLtMatmulPreferenceSetAttribute = PreferenceSet;
  api.cublasLtMatmulAlgoGetHeuristic = Heuristic;
  api.cublasLtMatmul = Matmul;
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
