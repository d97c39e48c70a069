// The base of Exp and Log layers.
#ifndef MILLRACE_NN_LAYERS_LOG_OF_BASE_H_
#define MILLRACE_NN_LAYERS_LOG_OF_BASE_H_

#include <cmath>

#include "millrace/error.h"

namespace millrace::inline nn {

// The natural logarithm of `base`; -1 means e. Throws FieldError(`field`, ...) for a base that is
// not positive or not finite.
inline double LogOfBase(const char* field, float base) {
  if (base == -1) return 1;
  if (!(base > 0) || !std::isfinite(base)) {
    throw FieldError(field, base, " given, expected a positive number, or -1 for e");
  }
  return std::log(double{base});
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOG_OF_BASE_H_
