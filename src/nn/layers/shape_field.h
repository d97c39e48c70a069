// Shapes that a net's description gives outright.
#ifndef MILLRACE_NN_LAYERS_SHAPE_FIELD_H_
#define MILLRACE_NN_LAYERS_SHAPE_FIELD_H_

#include <limits>
#include <string>

#include "base/error.h"
#include "nn/blob.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace {

// The format's own bound on the values of one blob.
inline constexpr int64_t kMaxBlobCount = std::numeric_limits<int32_t>::max();

// Throws FieldError(`field`, ...) if a blob of `dim` times `count` values is
// larger than the format allows, or `dim` is not positive; returns the product.
inline int64_t CheckedProduct(int64_t count, int64_t dim, const std::string& field) {
  if (dim <= 0) throw FieldError(field, dim, " given, expected a positive number");
  if (dim > kMaxBlobCount / count) {
    throw FieldError(field, "the blob would hold more than ", kMaxBlobCount, " values");
  }
  return count * dim;
}

// `shape` as a Shape. Throws FieldError("<field>.dim[i]", ...).
inline Shape CheckedShape(const caffe::BlobShape& shape, const std::string& field) {
  int64_t count = 1;
  for (int i = 0; i < shape.dim_size(); ++i) {
    count = CheckedProduct(count, shape.dim(i), StrCat(field, ".dim[", i, "]"));
  }
  return ShapeOf(shape);
}

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_SHAPE_FIELD_H_
