#ifndef MILLRACE_DATA_ANNOTATED_UNIFORM_H_
#define MILLRACE_DATA_ANNOTATED_UNIFORM_H_

#include "base/rng.h"

namespace millrace::inline data {

// Uniform in [low, high); `low` if both are equal.
inline float UniformIn(float low, float high, Rng* rng) {
  return low + (high - low) * rng->Uniform();
}

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_ANNOTATED_UNIFORM_H_
