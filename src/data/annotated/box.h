// Boxes in shares of an image's width and height, and their geometry as SSD has it.
#ifndef MILLRACE_DATA_ANNOTATED_BOX_H_
#define MILLRACE_DATA_ANNOTATED_BOX_H_

#include <cstdint>

#include "proto/caffe.pb.h"

namespace millrace {

struct Box {
  float xmin = 0, ymin = 0, xmax = 1, ymax = 1;  // default: the whole image
};

// A box and what it contains.
struct Object {
  int32_t label = 0, instance = 0;
  Box box;
  bool difficult = false;
};

// Width times height; 0 if the box ends before it begins.
float AreaOf(const Box& box);
// The common part; an empty box at the origin if there is none.
Box Intersection(const Box& a, const Box& b);
// Area of the common part divided by that of both together.
float JaccardOverlap(const Box& a, const Box& b);
// The share of `box` that `by` covers.
float CoverageOf(const Box& box, const Box& by);
// The part within the image.
Box Clipped(const Box& box);
// `box` in shares of `frame`, clipped to it. Returns whether any of it is left.
bool Project(const Box& frame, const Box& box, Box* projected);
// Whether an object with `box` stays when the image is cut to `frame`.
bool MeetsConstraint(const caffe::EmitConstraint& constraint, const Box& frame, const Box& box);

}  // namespace millrace

#endif  // MILLRACE_DATA_ANNOTATED_BOX_H_
