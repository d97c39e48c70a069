// The number of an axis that a net description gives.
#ifndef MILLRACE_NN_LAYERS_AXIS_FIELD_H_
#define MILLRACE_NN_LAYERS_AXIS_FIELD_H_

#include <string>

#include "millrace/blob.h"
#include "millrace/error.h"

namespace millrace::inline nn {

// `axis` counted from the front; it may be negative, counted from the end. Throws
// FieldError(`field`, ...) if the blob has no such axis.
inline int CheckedAxis(const Blob& blob, int axis, const std::string& field) {
  if (axis < -blob.num_axes() || axis >= blob.num_axes()) {
    throw FieldError(field, axis, " given, but the bottom has ", blob.num_axes(), " axes");
  }
  return axis < 0 ? axis + blob.num_axes() : axis;
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_AXIS_FIELD_H_
