// Checks of the shapes that a net description gives explicitly.
#ifndef MILLRACE_NN_LAYERS_SHAPE_FIELD_H_
#define MILLRACE_NN_LAYERS_SHAPE_FIELD_H_

#include <limits>
#include <string>

#include "base/error.h"
#include "millrace/blob.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline nn {

// Caffe's limit on the number of values in one blob.
inline constexpr int64_t kMaxBlobCount = std::numeric_limits<int32_t>::max();

// Returns `count` * `dim`; `count` may be 0, of an empty bottom. Throws FieldError(`field`, ...) if
// a blob of that many values is larger than the format allows, or if `dim` is below `least`, 0 or
// 1.
inline int64_t CheckedProduct(int64_t count, int64_t dim, const std::string& field,
                              int64_t least = 1) {
  if (dim < least) {
    throw FieldError(field, dim, " given, expected a positive number", least == 0 ? " or 0" : "");
  }
  if (count > 0 && dim > kMaxBlobCount / count) {
    throw FieldError(field, "the blob would hold more than ", kMaxBlobCount, " values");
  }
  return count * dim;
}

// Converts `shape`, whose sizes are at least `least`, to a Shape. Throws
// FieldError("<field>.dim[i]", ...).
inline Shape CheckedShape(const caffe::BlobShape& shape, const std::string& field,
                          int64_t least = 1) {
  int64_t count = 1;
  for (int i = 0; i < shape.dim_size(); ++i) {
    count = CheckedProduct(count, shape.dim(i), StrCat(field, ".dim[", i, "]"), least);
  }
  return ShapeOf(shape);
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHAPE_FIELD_H_
