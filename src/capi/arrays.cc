#include "capi/arrays.h"

#include <algorithm>
#include <limits>

#include "millrace/error.h"

namespace millrace::inline capi {

millrace_array ArrayOf(const char* name, const Blob& blob, bool with_data, bool with_diff) {
  millrace_array array = MILLRACE_ARRAY_INIT;
  if (blob.num_axes() > MILLRACE_MAX_AXES) {
    throw Error("array '", name, "' has ", blob.num_axes(), " axes, expected at most ",
                MILLRACE_MAX_AXES);
  }
  array.name = name;
  array.data = with_data ? blob.data() : nullptr;
  array.diff = with_diff ? blob.diff() : nullptr;
  array.count = blob.count();
  array.axes = blob.num_axes();
  std::copy(blob.shape().begin(), blob.shape().end(), array.shape);
  return array;
}

Shape ShapeFrom(const char* function, const int64_t* shape, int axes) {
  if (axes < 0 || axes > MILLRACE_MAX_AXES) {
    throw Error(function, ": ", axes, " axes, expected 0 to ", MILLRACE_MAX_AXES);
  }
  if (shape == nullptr && axes > 0) throw Error(function, ": shape is NULL");
  int64_t count = 1;
  for (int i = 0; i < axes; ++i) {
    // As Caffe, at most as many values as an int counts.
    if (shape[i] < 0 || (shape[i] > 0 && count > std::numeric_limits<int>::max() / shape[i])) {
      throw Error(function, ": axis ", i, " has length ", shape[i],
                  ", expected 0 or more, and at most ", std::numeric_limits<int>::max(),
                  " values in all");
    }
    count *= shape[i];
  }
  return Shape(shape, shape + axes);
}

}  // namespace millrace::inline capi
