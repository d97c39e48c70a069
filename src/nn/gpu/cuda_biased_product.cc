#include "nn/gpu/cuda_biased_product.h"

namespace millrace::inline nn {
namespace {

constexpr uintptr_t kMaxAlignment = 256;

uint32_t AlignmentOf(const float* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | kMaxAlignment;
  return static_cast<uint32_t>(address & (~address + 1));
}

// Whether the library lacks what it was asked for.
bool Refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

cublasComputeType_t ComputeTypeOf(GpuPrecision precision) {
  switch (precision) {
    case GpuPrecision::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case GpuPrecision::kBfloat16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

// A descriptor, destroyed with its owner.
template <typename Opaque>
using Owned = std::unique_ptr<Opaque, cublasStatus_t (*)(Opaque*)>;

}  // namespace

struct CudaBiasedProducts::Plan {
  explicit Plan(const CublasApi& api)
      : product(nullptr, api.cublasLtMatmulDescDestroy),
        a(nullptr, api.cublasLtMatrixLayoutDestroy),
        b(nullptr, api.cublasLtMatrixLayoutDestroy),
        c(nullptr, api.cublasLtMatrixLayoutDestroy) {}

  Owned<cublasLtMatmulDescOpaque_t> product;
  Owned<cublasLtMatrixLayoutOpaque_t> a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace_bytes = 0;
  bool exists = false;  // false: there is no algorithm
};

CudaBiasedProducts::CudaBiasedProducts(const CublasApi& cublas, cublasHandle_t handle,
                                       CudaQueue* queue, const Buffer& workspace,
                                       GpuPrecision precision)
    : cublas_(cublas),
      handle_(reinterpret_cast<cublasLtHandle_t>(handle)),
      queue_(*queue),
      workspace_(workspace),
      compute_(ComputeTypeOf(precision)) {}

CudaBiasedProducts::~CudaBiasedProducts() = default;

bool CudaBiasedProducts::Multiply(bool transpose_a, bool transpose_b, int m, int n, int k,
                                  const float* a, const float* b, const float* bias, float* c) {
  Plan& plan = PlanOf({transpose_a,
                       transpose_b,
                       m,
                       n,
                       k,
                       {AlignmentOf(a), AlignmentOf(b), AlignmentOf(bias), AlignmentOf(c)}},
                      bias);
  if (!plan.exists) return false;
  const float one = 1, zero = 0;
  const char* const doing = "a matrix product with a bias failed";
  const std::string& name = queue_.device().name();
  cublas_.Check(cublas_.cublasLtMatmulDescSetAttribute(
                    plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
                name, doing);
  // The library has columns where this interface has rows: it computes c^T = b^T a^T.
  const cublasStatus_t status = cublas_.cublasLtMatmul(
      handle_, plan.product.get(), &one, b, plan.b.get(), a, plan.a.get(), &zero, c, plan.c.get(),
      c, plan.c.get(), &plan.algorithm, workspace_.get(), plan.workspace_bytes, queue_.stream());
  if (Refuses(status)) {
    plan.exists = false;
    return false;
  }
  cublas_.Check(status, name, doing);
  return true;
}

CudaBiasedProducts::Plan& CudaBiasedProducts::PlanOf(const Shape& shape, const float* bias) {
  std::unique_ptr<Plan>& plan = plans_[shape];
  if (!plan) {
    auto made = std::make_unique<Plan>(cublas_);
    Choose(shape, bias, made.get());
    plan = std::move(made);
  }
  return *plan;
}

void CudaBiasedProducts::Choose(const Shape& shape, const float* bias, Plan* plan) {
  const auto check = [this](cublasStatus_t status) {
    cublas_.Check(status, queue_.device().name(), "cannot prepare a matrix product with a bias");
  };
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublas_.cublasLtMatmulDescSetAttribute(plan->product.get(), attribute, &value,
                                                 sizeof(value)));
  };
  cublasLtMatmulDesc_t product = nullptr;
  check(cublas_.cublasLtMatmulDescCreate(&product, compute_, CUDA_R_32F));
  plan->product.reset(product);
  set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  // Arrays as they lie, in columns: a row of this interface is a column there.
  const auto layout = [&](Owned<cublasLtMatrixLayoutOpaque_t>* owned, int rows, int columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublas_.cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, static_cast<uint64_t>(rows),
                                             static_cast<uint64_t>(columns), rows));
    owned->reset(made);
  };
  layout(&plan->b, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k);
  layout(&plan->a, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m);
  layout(&plan->c, shape.n, shape.m);

  cublasLtMatmulPreference_t made = nullptr;
  check(cublas_.cublasLtMatmulPreferenceCreate(&made));
  const Owned<cublasLtMatmulPreferenceOpaque_t> limits(made,
                                                       cublas_.cublasLtMatmulPreferenceDestroy);
  const auto limit = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublas_.cublasLtMatmulPreferenceSetAttribute(limits.get(), attribute, &value,
                                                       sizeof(value)));
  };
  limit(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_.bytes()});
  const auto& [a, b, of_bias, c] = shape.alignments;
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b);
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a);
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublas_.cublasLtMatmulAlgoGetHeuristic(
      handle_, plan->product.get(), plan->b.get(), plan->a.get(), plan->c.get(), plan->c.get(),
      limits.get(), 1, &result, &found);
  if (!Refuses(status)) check(status);
  plan->exists = status == CUBLAS_STATUS_SUCCESS && found > 0 &&
                 result.state == CUBLAS_STATUS_SUCCESS &&
                 result.workspaceSize <= workspace_.bytes();
  plan->algorithm = result.algo;
  plan->workspace_bytes = result.workspaceSize;
}

}  // namespace millrace::inline nn
