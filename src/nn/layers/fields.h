// Fields of layer parameters: axes and shapes.
#ifndef MILLRACE_NN_LAYERS_FIELDS_H_
#define MILLRACE_NN_LAYERS_FIELDS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "millrace/blob.h"
#include "millrace/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline nn {

// The number of an axis that a net description gives.

// `axis` counted from the front; it may be negative, counted from the end. Throws
// FieldError(`field`, ...) if the blob has no such axis.
inline int CheckedAxis(const Blob& blob, int axis, const std::string& field) {
  if (axis < -blob.num_axes() || axis >= blob.num_axes()) {
    throw FieldError(field, axis, " given, but the bottom has ", blob.num_axes(), " axes");
  }
  return axis < 0 ? axis + blob.num_axes() : axis;
}

// The axis of Concat and Slice, which old files give by another name.

// The number of an axis of `bottom`: `axis`, which may be negative, or `old_axis` if the field
// <message>.<old_name> is set. Throws FieldError if both are set or if there is no such axis.
inline int AxisOf(const Blob& bottom, const std::string& message, bool has_axis, int axis,
                  const std::string& old_name, bool has_old, uint32_t old_axis) {
  if (has_axis && has_old) {
    throw FieldError(message, "axis and ", old_name, " given, expected one of them");
  }
  const int axes = bottom.num_axes();
  const int64_t wanted = has_old ? int64_t{old_axis} : int64_t{axis};
  if (wanted < (has_old ? 0 : -axes) || wanted >= axes) {
    throw FieldError(message + "." + (has_old ? old_name : "axis"), wanted,
                     " given, but the bottom has ", axes, " axes");
  }
  return static_cast<int>(wanted < 0 ? wanted + axes : wanted);
}

// Checks of the shapes that a net description gives explicitly.

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

#endif  // MILLRACE_NN_LAYERS_FIELDS_H_
