// The axis of Concat and Slice, which old files give by another name.
#ifndef MILLRACE_NN_LAYERS_OLD_AXIS_FIELD_H_
#define MILLRACE_NN_LAYERS_OLD_AXIS_FIELD_H_

#include <cstdint>
#include <string>

#include "millrace/blob.h"
#include "millrace/error.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_OLD_AXIS_FIELD_H_
