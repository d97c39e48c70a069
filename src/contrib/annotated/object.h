#ifndef MILLRACE_CONTRIB_ANNOTATED_OBJECT_H_
#define MILLRACE_CONTRIB_ANNOTATED_OBJECT_H_

#include <cstdint>

#include "base/rng.h"
#include "data/box.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Uniform in [low, high); `low` if both are equal.
inline float UniformIn(float low, float high, Rng* rng) {
  return low + (high - low) * rng->Uniform();
}

// Objects of an image, and what becomes of their boxes when it is cut, as SSD has it.

// A box and what it contains.
struct Object {
  int32_t label = 0, instance = 0;
  Box box;
  bool difficult = false;
};

// The share of `box` that `by` covers.
float CoverageOf(const Box& box, const Box& by);
// `box` in shares of `frame`, clipped to it. Returns whether any of it is left.
bool Project(const Box& frame, const Box& box, Box* projected);
// Whether an object with `box` stays when the image is cut to `frame`.
bool MeetsConstraint(const caffe::EmitConstraint& constraint, const Box& frame, const Box& box);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_OBJECT_H_
