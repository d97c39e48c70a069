#include "nn/layers/inner_product/unit_rows.h"

#include "device/kernel.h"
#include "nn/layers/inner_product/unit_rows_kernels.h"
#include "nn/layers/norm/l2_norm_kernels.h"

namespace millrace::inline nn {
namespace {

// Added to squared lengths, so that rows of zeros have an inverse.
constexpr float kEps = 1e-30f;

}  // namespace

UnitRows::UnitRows(MemorySpace& memory) : inverse_(memory) {
  unit_.blob = std::make_shared<Blob>(memory);
}

void UnitRows::Reshape(int64_t rows, int64_t columns) {
  unit_.blob->Reshape({rows, columns});
  inverse_.Reshape({rows});
}

void UnitRows::Forward(Queue& queue, const float* matrix) {
  const int64_t rows = inverse_.count(), columns = unit_.blob->dim(1);
  Launch(queue, rows, InverseNormOfImage{columns, kEps, matrix, inverse_.data()});
  Launch(queue, rows * columns, ScaleToUnit{columns, inverse_.data(), matrix, unit_.blob->data()});
}

void UnitRows::Backward(Queue& queue, const Param& matrix) {
  Launch(queue, inverse_.count(),
         UnitRowGradient{unit_.blob->dim(1), *matrix.has_gradient, inverse_.data(),
                         unit_.blob->data(), unit_.blob->diff(), matrix.blob->diff()});
}

}  // namespace millrace::inline nn
